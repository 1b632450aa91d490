//! What is kept of an endpoint, what an update changes, and how many there may be.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ENDPOINTS, endpoint, hook, merchant, still};
use crate::signing::{Signed, live};
use crate::support::{
    Merchant, conflict, created, id, ids, invalid, is_listed, not_found, ok, refused, refuses_what_is_no_page, said_of,
    together, uuid, with, without,
};

#[tokio::test]
async fn what_is_sent_is_kept_and_the_rest_is_absent() -> Result<()> {
    let merchant = merchant().await?;
    let url = "https://hooks.example/in?shop=1";
    let answer = merchant.api.post(ENDPOINTS, json!({"url": url, "enabledEvents": null})).await?;
    let made = created(&answer);
    assert!(id(made)?.starts_with("we_"));
    let shown = json!({
        "object": "webhook_endpoint", "livemode": false, "url": url, "enabledEvents": [], "status": "enabled",
    });
    assert_eq!(without(without(without(made.clone(), "id"), "createdAt"), "secret"), shown);
    assert!(made["createdAt"].is_string());
    let read = merchant.api.get(&format!("{ENDPOINTS}/{}", id(made)?)).await?;
    assert_eq!(ok(&read), &without(made.clone(), "secret"));

    let events = json!(["payment.settled", "customer.created", "payment.settled", "webhook_endpoint.disabled"]);
    let some = merchant.api.post(ENDPOINTS, with(hook(), "enabledEvents", events)).await?;
    let once = json!(["payment.settled", "customer.created", "webhook_endpoint.disabled"]);
    assert_eq!(created(&some)["enabledEvents"], once, "each once, in the order sent");
    for all in [json!([]), Value::Null] {
        let answer = merchant.api.post(ENDPOINTS, with(hook(), "enabledEvents", all)).await?;
        assert_eq!(created(&answer)["enabledEvents"], json!([]));
    }
    Ok(())
}

#[tokio::test]
async fn fields_are_strict() -> Result<()> {
    let merchant = merchant().await?;
    invalid(&merchant.api.post(ENDPOINTS, json!({})).await?, "url");
    invalid(&merchant.api.post(ENDPOINTS, with(hook(), "url", Value::Null)).await?, "url");
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
        let answer = merchant.api.post(ENDPOINTS, with(hook(), field, value.clone())).await?;
        invalid(&answer, param);
        let message = answer.body["error"]["message"].as_str().unwrap_or_default();
        assert!(!message.contains("nonsense") && !message.contains("-1") && !message.contains("true"), "{message}");
        invalid(&merchant.api.post(&path, json!({field: value})).await?, param);
    }
    for status in [json!("paused"), json!("Enabled"), json!(""), json!(true), json!(1)] {
        invalid(&merchant.api.post(&path, json!({"status": status, "url": "https://never.example"})).await?, "status");
    }
    // Of several wrong fields the first is named, by the order of their names.
    let all = json!({"url": 1, "status": 1, "enabledEvents": 1});
    invalid(&merchant.api.post(&path, all).await?, "enabledEvents");
    assert_eq!(ok(&merchant.api.get(&path).await?), &before, "a refused update changes nothing");
    created(&merchant.api.post(ENDPOINTS, with(hook(), "url", longest)).await?);
    created(&merchant.api.post(ENDPOINTS, with(hook(), "url", "http://hooks.example:8080/in")).await?);
    Ok(())
}

#[tokio::test]
async fn live_accounts_have_https_alone() -> Result<()> {
    let merchant = live(still().await?).await?;
    let send = async |target: &str, url: &str| {
        let body = json!({"url": url}).to_string();
        Signed::new(&merchant, Method::POST, target, Some(&body))?.sign().send(&merchant.api).await
    };
    invalid(&send(ENDPOINTS, "http://hooks.example/in").await?, "url");
    let answer = send(ENDPOINTS, "https://hooks.example/in").await?;
    assert_eq!(created(&answer)["livemode"], true);
    let path = format!("{ENDPOINTS}/{}", id(&answer.body)?);
    invalid(&send(&path, "http://hooks.example/in").await?, "url");
    assert_eq!(ok(&send(&path, "https://other.example").await?)["url"], "https://other.example");
    Ok(())
}

#[tokio::test]
async fn an_update_changes_only_what_is_sent() -> Result<()> {
    let merchant = merchant().await?;
    let made = merchant.api.post(ENDPOINTS, hook()).await?;
    let path = format!("{ENDPOINTS}/{}", id(created(&made))?);
    let mut shown = without(made.body.clone(), "secret");
    let nothing = json!({"url": null, "enabledEvents": null, "status": null});
    invalid(&merchant.api.post(&path, json!({"secret": "whsec_mine"})).await?, "secret");
    for nothing in [json!({}), nothing] {
        assert_eq!(ok(&merchant.api.post(&path, nothing).await?), &shown);
    }
    for (field, value, kept) in [
        ("url", json!("http://other.example"), json!("http://other.example")),
        ("enabledEvents", json!(["payment.captured", "payment.captured"]), json!(["payment.captured"])),
        ("enabledEvents", json!([]), json!([])),
    ] {
        shown = with(shown, field, kept);
        assert_eq!(ok(&merchant.api.post(&path, json!({field: value})).await?), &shown);
    }
    assert_eq!(ok(&merchant.api.get(&path).await?), &shown);
    Ok(())
}

/// What the table says of an endpoint's failures and pauses.
async fn troubled(merchant: &Merchant, endpoint: &str) -> Result<bool> {
    let query = "SELECT failing_since IS NOT NULL OR paused_until IS NOT NULL FROM webhook_endpoints WHERE id = $1";
    Ok(sqlx::query_scalar(query).bind(uuid(endpoint)?).fetch_one(&merchant.books.db).await?)
}

/// An endpoint as it is after days of failures.
async fn in_trouble(merchant: &Merchant, endpoint: &str, reason: Option<&str>) -> Result<()> {
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
async fn an_endpoint_is_disabled_for_a_reason_and_enabled_afresh() -> Result<()> {
    let merchant = merchant().await?;
    let endpoint = endpoint(&merchant).await?;
    let path = format!("{ENDPOINTS}/{endpoint}");
    let enabled = merchant.api.get(&path).await?.body;
    let disabled = |reason: &str| with(with(enabled.clone(), "status", "disabled"), "disabledReason", reason);
    let status = async |status: &str| merchant.api.post(&path, json!({"status": status})).await;

    assert_eq!(ok(&status("disabled").await?), &disabled("merchant"));
    assert_eq!(ok(&status("disabled").await?), &disabled("merchant"));
    assert_eq!(ok(&status("enabled").await?), &enabled);
    for reason in ["gone", "failing"] {
        in_trouble(&merchant, &endpoint, Some(reason)).await?;
        assert_eq!(ok(&merchant.api.get(&path).await?), &disabled(reason));
        let events = json!({"enabledEvents": ["payment.expired"]});
        assert_eq!(ok(&merchant.api.post(&path, events).await?), &disabled(reason), "that enables nothing");
        assert!(troubled(&merchant, &endpoint).await?);
        assert_eq!(ok(&status("enabled").await?), &enabled);
        assert!(!troubled(&merchant, &endpoint).await?, "failures before it was enabled count no more");
    }
    in_trouble(&merchant, &endpoint, None).await?;
    ok(&merchant.api.post(&path, json!({"url": enabled["url"]})).await?);
    assert!(troubled(&merchant, &endpoint).await?, "the same URL is no other one");
    ok(&merchant.api.post(&path, json!({"url": "https://other.example"})).await?);
    assert!(!troubled(&merchant, &endpoint).await?, "the failures were another URL's");
    Ok(())
}

#[tokio::test]
async fn another_accounts_endpoint_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let endpoint = endpoint(&merchant).await?;
    let asked = async |id: &str| -> Result<Vec<String>> {
        let path = format!("{ENDPOINTS}/{id}");
        let answers = [
            stranger.api.get(&path).await?,
            stranger.api.post(&path, json!({"url": "https://mine.example"})).await?,
            stranger.api.send(Method::POST, &format!("{path}/rotate_secret"), None).await?,
            stranger.api.delete(&path).await?,
        ];
        answers.iter().for_each(not_found);
        // What the body says wrong comes before what the path names.
        invalid(&stranger.api.post(&path, json!({"url": "nonsense"})).await?, "url");
        Ok(answers.iter().map(|answer| said_of(answer, id)).collect())
    };
    let foreign = asked(&endpoint).await?;
    assert_eq!(foreign, asked("we_01ARZ3NDEKTSV4RRFFQ69G5FAV").await?);
    assert_eq!(foreign, asked("nonsense").await?);
    assert_eq!(ok(&merchant.api.get(&format!("{ENDPOINTS}/{endpoint}")).await?)["url"], hook()["url"]);
    assert!(ids(&stranger.api.get(ENDPOINTS).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn pages_hold_each_endpoint_once_and_newest_first() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let foreign = endpoint(&stranger).await?;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(endpoint(&merchant).await?);
    }
    let deleted = made.remove(2);
    ok(&merchant.api.delete(&format!("{ENDPOINTS}/{deleted}")).await?);
    made.reverse();
    let list = format!("{ENDPOINTS}?");
    is_listed(&merchant.api, &list, &made).await?;
    refuses_what_is_no_page(&merchant.api, &list, &[&foreign, &deleted, "we_01ARZ3NDEKTSV4RRFFQ69G5FAV"]).await
}

#[tokio::test]
async fn of_many_endpoints_at_once_fifty_are_made() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let answers = together(60, async |_| merchant.api.post(ENDPOINTS, hook()).await).await?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!(won.len(), 50);
    lost.into_iter().for_each(conflict);
    let page = merchant.api.get(&format!("{ENDPOINTS}?limit=100")).await?;
    assert_eq!(ids(&page).len(), 50);

    endpoint(&stranger).await?;
    ok(&merchant.api.delete(&format!("{ENDPOINTS}/{}", id(&won[0].body)?)).await?);
    endpoint(&merchant).await?;
    let full = merchant.api.post(ENDPOINTS, hook()).await?;
    refused(&full, 409, "conflict");
    invalid(&merchant.api.post(ENDPOINTS, json!({"url": "nonsense"})).await?, "url");
    Ok(())
}
