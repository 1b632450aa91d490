//! Stored endpoint fields, updates, and the limit of endpoints.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Response;

use super::{ENDPOINTS, cluster_without_workers, endpoint, endpoint_body, merchant};
use crate::signing::{Signed, live};
use crate::support::{
    Merchant, assert_invalid_pages_rejected, assert_listed, concurrently, conflict, created, error_text, id, ids,
    invalid, not_found, ok, refused, uuid, with, without,
};

#[tokio::test]
async fn endpoints_store_the_sent_fields() -> Result<()> {
    let merchant = merchant().await?;
    let url = "https://hooks.example/in?shop=1";
    let response = merchant.api.post(ENDPOINTS, json!({"url": url, "enabledEvents": null})).await?;
    let made = created(&response);
    assert!(id(made)?.starts_with("we_"));
    let expected = json!({
        "object": "webhook_endpoint", "livemode": false, "version": 1, "url": url, "enabledEvents": [], "status": "enabled",
    });
    assert_eq!(without(without(without(made.clone(), "id"), "createdAt"), "secret"), expected);
    assert!(made["createdAt"].is_string());
    let read = merchant.api.get(&format!("{ENDPOINTS}/{}", id(made)?)).await?;
    assert_eq!(ok(&read), &without(made.clone(), "secret"));

    let events = json!(["payment.settled", "customer.created", "payment.settled", "webhook_endpoint.disabled"]);
    let some = merchant.api.post(ENDPOINTS, with(endpoint_body(), "enabledEvents", events)).await?;
    let once = json!(["payment.settled", "customer.created", "webhook_endpoint.disabled"]);
    assert_eq!(created(&some)["enabledEvents"], once, "without duplicates, in the order sent");
    for all in [json!([]), Value::Null] {
        let response = merchant.api.post(ENDPOINTS, with(endpoint_body(), "enabledEvents", all)).await?;
        assert_eq!(created(&response)["enabledEvents"], json!([]));
    }
    Ok(())
}

#[tokio::test]
async fn invalid_fields_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    invalid(&merchant.api.post(ENDPOINTS, json!({})).await?, "url");
    invalid(&merchant.api.post(ENDPOINTS, with(endpoint_body(), "url", Value::Null)).await?, "url");
    let path = format!("{ENDPOINTS}/{}", endpoint(&merchant).await?);
    let before = merchant.api.get(&path).await?.body;
    let longest = format!("https://hooks.example/{}", "x".repeat(2048 - 22));
    let wrong = [
        ("url", json!("")),
        ("url", json!("hooks.example")),
        ("url", json!("/in")),
        ("url", json!("ftp://hooks.example/in")),
        ("url", json!("https://")),
        ("url", json!("https://hooks.example/a b")),
        ("url", json!(format!("{longest}x"))),
        ("url", json!(5)),
        ("url", json!({})),
        ("enabledEvents", json!("payment.settled")),
        ("enabledEvents", json!(1)),
        ("enabledEvents", json!(1.5)),
        ("enabledEvents", json!(-1)),
        ("enabledEvents", json!(true)),
        ("enabledEvents", json!({"0": "payment.settled"})),
        ("enabledEvents[0]", json!(["payment.unheard_of"])),
        ("enabledEvents[0]", json!(["*"])),
        ("enabledEvents[1]", json!(["payment.settled", 1, "nonsense"])),
        ("enabledEvents[1]", json!(["payment.settled", null])),
        ("enabledEvents[2]", json!(["payment.settled", "payment.settled", "Payment.settled"])),
    ];
    for (param, value) in wrong {
        let field = param.split('[').next().unwrap_or_default();
        let response = merchant.api.post(ENDPOINTS, with(endpoint_body(), field, value.clone())).await?;
        invalid(&response, param);
        let message = response.body["error"]["message"].as_str().unwrap_or_default();
        assert!(!message.contains("nonsense") && !message.contains("-1") && !message.contains("true"), "{message}");
        invalid(&merchant.api.post(&path, json!({field: value})).await?, param);
    }
    for status in [json!("paused"), json!("Enabled"), json!(""), json!(true), json!(1)] {
        invalid(&merchant.api.post(&path, json!({"status": status, "url": "https://never.example"})).await?, "status");
    }
    // If several fields are invalid, the alphabetically first is named.
    let all = json!({"url": 1, "status": 1, "enabledEvents": 1});
    invalid(&merchant.api.post(&path, all).await?, "enabledEvents");
    assert_eq!(ok(&merchant.api.get(&path).await?), &before, "a rejected update changes nothing");
    created(&merchant.api.post(ENDPOINTS, with(endpoint_body(), "url", longest)).await?);
    created(&merchant.api.post(ENDPOINTS, with(endpoint_body(), "url", "http://hooks.example:8080/in")).await?);
    Ok(())
}

#[tokio::test]
async fn live_endpoints_require_https() -> Result<()> {
    let merchant = live(cluster_without_workers().await?).await?;
    let send = async |target: &str, url: &str| {
        let body = json!({"url": url}).to_string();
        Signed::new(&merchant, Method::POST, target, Some(&body))?.sign().send(&merchant.api).await
    };
    invalid(&send(ENDPOINTS, "http://hooks.example/in").await?, "url");
    let response = send(ENDPOINTS, "https://hooks.example/in").await?;
    assert_eq!(created(&response)["livemode"], true);
    let path = format!("{ENDPOINTS}/{}", id(&response.body)?);
    invalid(&send(&path, "http://hooks.example/in").await?, "url");
    assert_eq!(ok(&send(&path, "https://other.example").await?)["url"], "https://other.example");
    Ok(())
}

#[tokio::test]
async fn updates_change_only_the_sent_fields() -> Result<()> {
    let merchant = merchant().await?;
    let made = merchant.api.post(ENDPOINTS, endpoint_body()).await?;
    let path = format!("{ENDPOINTS}/{}", id(created(&made))?);
    let mut expected = without(made.body.clone(), "secret");
    let unchanged = json!({"url": null, "enabledEvents": null, "status": null});
    invalid(&merchant.api.post(&path, json!({"secret": "whsec_mine"})).await?, "secret");
    for unchanged in [json!({}), unchanged] {
        assert_eq!(ok(&merchant.api.post(&path, unchanged).await?), &expected);
    }
    for (field, value, stored) in [
        ("url", json!("http://other.example"), json!("http://other.example")),
        ("enabledEvents", json!(["payment.captured", "payment.captured"]), json!(["payment.captured"])),
        ("enabledEvents", json!([]), json!([])),
    ] {
        let raised = expected["version"].as_i64().map(|version| version + 1);
        expected = with(with(expected, field, stored), "version", raised);
        assert_eq!(ok(&merchant.api.post(&path, json!({field: value})).await?), &expected);
    }
    assert_eq!(ok(&merchant.api.get(&path).await?), &expected);
    Ok(())
}

/// Whether the endpoint's row has a failure or a pause.
async fn has_failures(merchant: &Merchant, endpoint: &str) -> Result<bool> {
    let query = "SELECT failing_since IS NOT NULL OR paused_until IS NOT NULL FROM webhook_endpoints WHERE id = $1";
    Ok(sqlx::query_scalar(query).bind(uuid(endpoint)?).fetch_one(&merchant.books.db).await?)
}

/// Puts an endpoint into the state after days of failures.
async fn set_failing(merchant: &Merchant, endpoint: &str, reason: Option<&str>) -> Result<()> {
    sqlx::query(
        "UPDATE webhook_endpoints SET failing_since = now() - interval '5 days', paused_until = now() + interval '1 hour',
                status = CASE WHEN $2::text IS NULL THEN 'enabled' ELSE 'disabled' END::webhook_endpoint_status,
                disabled_reason = $2 WHERE id = $1",
    )
    .bind(uuid(endpoint)?)
    .bind(reason)
    .execute(&merchant.books.db)
    .await?;
    Ok(())
}

#[tokio::test]
async fn enabling_an_endpoint_resets_its_failures() -> Result<()> {
    let merchant = merchant().await?;
    let endpoint = endpoint(&merchant).await?;
    let path = format!("{ENDPOINTS}/{endpoint}");
    let shown = |response: &Response| without(ok(response).clone(), "version");
    let enabled = shown(&merchant.api.get(&path).await?);
    let disabled = |reason: &str| with(with(enabled.clone(), "status", "disabled"), "disabledReason", reason);
    let status = async |status: &str| merchant.api.post(&path, json!({"status": status})).await;

    assert_eq!(shown(&status("disabled").await?), disabled("merchant"));
    assert_eq!(shown(&status("disabled").await?), disabled("merchant"));
    assert_eq!(shown(&status("enabled").await?), enabled);
    for reason in ["gone", "failing"] {
        set_failing(&merchant, &endpoint, Some(reason)).await?;
        assert_eq!(shown(&merchant.api.get(&path).await?), disabled(reason));
        let events = json!({"enabledEvents": ["payment.expired"]});
        assert_eq!(shown(&merchant.api.post(&path, events).await?), disabled(reason), "the update does not enable it");
        assert!(has_failures(&merchant, &endpoint).await?);
        assert_eq!(shown(&status("enabled").await?), enabled);
        assert!(!has_failures(&merchant, &endpoint).await?, "enabling resets the failures");
    }
    set_failing(&merchant, &endpoint, None).await?;
    ok(&merchant.api.post(&path, json!({"url": enabled["url"]})).await?);
    assert!(has_failures(&merchant, &endpoint).await?, "the same URL does not reset the failures");
    ok(&merchant.api.post(&path, json!({"url": "https://other.example"})).await?);
    assert!(!has_failures(&merchant, &endpoint).await?, "a new URL resets the failures");
    Ok(())
}

#[tokio::test]
async fn endpoints_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let endpoint = endpoint(&merchant).await?;
    let errors = async |id: &str| -> Result<Vec<String>> {
        let path = format!("{ENDPOINTS}/{id}");
        let responses = [
            other_merchant.api.get(&path).await?,
            other_merchant.api.post(&path, json!({"url": "https://mine.example"})).await?,
            other_merchant.api.send(Method::POST, &format!("{path}/rotate_secret"), None).await?,
            other_merchant.api.delete(&path).await?,
        ];
        responses.iter().for_each(not_found);
        // Syntax errors in the body come before unknown ids in the path.
        invalid(&other_merchant.api.post(&path, json!({"url": "nonsense"})).await?, "url");
        Ok(responses.iter().map(|response| error_text(response, id)).collect())
    };
    let foreign = errors(&endpoint).await?;
    assert_eq!(foreign, errors("we_01ARZ3NDEKTSV4RRFFQ69G5FAV").await?);
    assert_eq!(foreign, errors("nonsense").await?);
    assert_eq!(ok(&merchant.api.get(&format!("{ENDPOINTS}/{endpoint}")).await?)["url"], endpoint_body()["url"]);
    assert!(ids(&other_merchant.api.get(ENDPOINTS).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn pages_list_each_endpoint_once_newest_first() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let foreign = endpoint(&other_merchant).await?;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(endpoint(&merchant).await?);
    }
    let deleted = made.remove(2);
    ok(&merchant.api.delete(&format!("{ENDPOINTS}/{deleted}")).await?);
    made.reverse();
    let list = format!("{ENDPOINTS}?");
    assert_listed(&merchant.api, &list, &made).await?;
    assert_invalid_pages_rejected(&merchant.api, &list, &[&foreign, &deleted, "we_01ARZ3NDEKTSV4RRFFQ69G5FAV"]).await
}

#[tokio::test]
async fn concurrent_creations_stop_at_fifty_endpoints() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let responses = concurrently(60, async |_| merchant.api.post(ENDPOINTS, endpoint_body()).await).await?;
    let (created_responses, conflicts): (Vec<_>, Vec<_>) =
        responses.iter().partition(|response| response.status == 201);
    assert_eq!(created_responses.len(), 50);
    conflicts.into_iter().for_each(conflict);
    let page = merchant.api.get(&format!("{ENDPOINTS}?limit=100")).await?;
    assert_eq!(ids(&page).len(), 50);

    endpoint(&other_merchant).await?;
    ok(&merchant.api.delete(&format!("{ENDPOINTS}/{}", id(&created_responses[0].body)?)).await?);
    endpoint(&merchant).await?;
    let full = merchant.api.post(ENDPOINTS, endpoint_body()).await?;
    refused(&full, 409, "conflict");
    invalid(&merchant.api.post(ENDPOINTS, json!({"url": "nonsense"})).await?, "url");
    Ok(())
}
