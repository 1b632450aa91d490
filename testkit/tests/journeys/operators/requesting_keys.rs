//! Every request and every charge can be attributed to an API key.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Client, Cluster, form};

use super::text;
use crate::support::{Merchant, accepted, cluster, eventually, id, merchant, ok, sale};

/// A new secret key of this merchant: its id, and a client that uses it.
async fn another_key(cluster: &Cluster, merchant: &Merchant) -> Result<(String, Client)> {
    let key = cluster.ctl(&["keys", "create", "--account", &merchant.account.id, "--kind", "secret"]).await?;
    Ok((text(&key, "id"), merchant.api.bearer(&text(&key, "key"))?))
}

/// The access log line ("request completed") that contains all these texts.
async fn access_log_line(log: impl Fn() -> String, texts: &[&str]) -> Result<Value> {
    eventually("the access log line", async || {
        let log = log();
        let line = log
            .lines()
            .find(|line| line.contains("\"request completed\"") && texts.iter().all(|text| line.contains(text)));
        Ok(line.map(serde_json::from_str).transpose()?)
    })
    .await
}

async fn last_used(cluster: &Cluster, merchant: &Merchant, key: &str) -> Result<Option<String>> {
    let listed = cluster.ctl(&["keys", "list", "--account", &merchant.account.id]).await?;
    let row = listed["keys"].as_array().context("a list")?.iter().find(|row| row["id"] == key).context("the key")?;
    Ok(row["last_used_at"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn refunds_are_attributed_to_the_requesting_key() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).env("LOG_FORMAT", "json").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let ((shop, selling), (clerk, refunding)) =
        (another_key(&cluster, &merchant).await?, another_key(&cluster, &merchant).await?);
    let payment = id(&selling.post("/v1/payments", sale(1500)).await?.body)?;
    let response = refunding.post(&format!("/v1/payments/{payment}/refund"), json!({"amount": 500})).await?;
    let (request, refund) =
        (response.header("request-id").context("a request id")?.to_owned(), id(accepted(&response))?);
    merchant.wait_for_status(&payment, "partially_refunded").await?;

    // A merchant can provide the refund id or the Request-Id of the response.
    for identifier in [&refund, &request] {
        let why = cluster.ctl(&["why", identifier]).await?;
        assert_eq!((&why["found"][0]["requested_by"], &why["found"][0]["payment"]), (&json!(clerk), &json!(payment)));
        assert_eq!(why["found"][0]["request_id"], json!(request));
    }
    let why = cluster.ctl(&["payments", "why", &payment]).await?;
    let timeline = why["story"].as_array().context("a timeline")?;
    let operation = |kind: &str| timeline.iter().find(|row| row["kind"] == kind && row["what"] == "operation written");
    assert_eq!(operation("sale").context("the sale")?["requested_by"], json!(shop));
    assert_eq!(operation("refund").context("the refund")?["requested_by"], json!(clerk));
    let refunded = timeline.iter().find(|row| row["what"] == "refund").context("the refund's row")?;
    assert_eq!((&refunded["id"], &refunded["requested_by"]), (&json!(refund), &json!(clerk)));

    // The access log names the key and the client address of every request.
    let api = cluster.api(0);
    let line = access_log_line(|| api.log(), &[&request]).await?;
    let expected = json!({"account": merchant.account.id, "key": clerk, "client": "127.0.0.1", "method": "POST",
        "route": "/v1/payments/{id}/refund", "status": 202});
    for (name, value) in expected.as_object().into_iter().flatten() {
        assert_eq!(&line[name], value, "{name} of {line}");
    }
    assert!(line["duration_ms"].is_u64() && line["code"].is_null(), "{line}");
    Ok(())
}

#[tokio::test]
async fn rejected_requests_are_logged_with_claimed_key_and_client() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).env("LOG_FORMAT", "json").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let key = merchant.account.secret_key.clone();
    let id = cluster.ctl(&["keys", "list", "--account", &merchant.account.id, "--kind", "secret"]).await?;
    let id = text(&id["keys"][0], "id");
    let last = if key.ends_with('0') { "1" } else { "0" };
    let wrong = format!("{}{last}", &key[..key.len() - 1]);
    let wrong_key = merchant.api.bearer(&wrong)?.get("/v1/customers").await?;
    let unknown = merchant.api.get("/v1/customers/cus_1").await?;
    let unauthenticated = Client::new(merchant.api.base())?.get("/v1/payments").await?;
    assert_eq!([wrong_key.status, unknown.status, unauthenticated.status], [401, 404, 401]);
    let api = cluster.api(0);
    let line = async |response: &testkit::Response| {
        access_log_line(|| api.log(), &[response.header("request-id").expect("a Request-Id")]).await
    };
    let entry = line(&wrong_key).await?;
    assert_eq!((&entry["claimed_key"], &entry["code"]), (&json!(id), &json!("authentication_failed")), "{entry}");
    assert!(
        entry["key"].is_null() && entry["account"].is_null(),
        "a wrong key is not attributed to an account: {entry}"
    );
    let entry = line(&unknown).await?;
    assert_eq!(
        (&entry["key"], &entry["code"], &entry["status"]),
        (&json!(id), &json!("not_found"), &json!(404)),
        "{entry}"
    );
    let entry = line(&unauthenticated).await?;
    assert!(entry["key"].is_null() && entry["claimed_key"].is_null() && entry["client"] == "127.0.0.1", "{entry}");
    assert!(!api.log().contains(&key[40..key.len() - 1]), "no key is logged");
    Ok(())
}

#[tokio::test]
async fn last_use_of_a_key_is_stored_at_most_once_a_minute() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let ((used, first), (after, second), (unused, _)) = (
        another_key(cluster, &merchant).await?,
        another_key(cluster, &merchant).await?,
        another_key(cluster, &merchant).await?,
    );
    let last_used = async |key: &str| last_used(cluster, &merchant, key).await;
    ok(&first.get("/v1/customers").await?);
    let first_use = eventually("the last use of the key", async || last_used(&used).await).await?;
    for _ in 0..20 {
        ok(&first.get("/v1/customers").await?);
    }
    // Uses are stored in order, so once this one is stored, all earlier ones were handled.
    ok(&second.get("/v1/customers").await?);
    eventually("the last use of the other key", async || last_used(&after).await).await?;
    assert_eq!(last_used(&used).await?, Some(first_use), "one write per minute");
    assert_eq!(last_used(&unused).await?, None);
    // An unused key can be revoked.
    cluster.ctl(&["keys", "revoke", &unused]).await?;
    Ok(())
}

#[tokio::test]
async fn the_gateway_logs_account_and_client_address() -> Result<()> {
    let mut cluster = Cluster::builder().gateway(1).env("LOG_FORMAT", "json").start().await?;
    let gateway_account = cluster.gateway_account("attributed", &[]).await?;
    let client = Client::new(&cluster.gateway_url(0))?.header("content-type", "application/x-www-form-urlencoded")?;
    let ask = async |username: &str, api_key: &str| {
        let body = form([("username", username), ("api_key", api_key)]).into_bytes();
        client.send(Method::POST, "/apis/account.php", Some(body)).await
    };
    let secret = "4242424242424242";
    for (username, key, code) in [
        ("attributed", gateway_account.api_key.as_str(), "00"),
        ("attributed", "gwk_wrong", "09"),
        (secret, "gwk_wrong", "01"),
    ] {
        let response = ask(username, key).await?;
        let actual = response.body["response"]["code"].as_str().unwrap_or("00").to_owned();
        assert_eq!(actual, code, "{}", response.body);
    }
    client.get("/services/field").await?;
    let gateway = cluster.gateway(0);
    let line = access_log_line(|| gateway.log(), &["account.php", "\"00\""]).await?;
    assert_eq!((&line["account"], &line["client"]), (&json!("attributed"), &json!("127.0.0.1")), "{line}");
    let line = access_log_line(|| gateway.log(), &["account.php", "\"09\""]).await?;
    assert!(line["account"].is_null() && line["claimed_account"] == "attributed", "{line}");
    let line = access_log_line(|| gateway.log(), &["account.php", "\"01\""]).await?;
    assert!(line["account"].is_null() && line["claimed_account"].is_null(), "{line}");
    let line = access_log_line(|| gateway.log(), &["/services/field"]).await?;
    assert!(line["client"] == "127.0.0.1" && line["status"].is_u64(), "{line}");
    let log = gateway.log();
    assert!(!log.contains(secret) && !log.contains(&gateway_account.api_key), "credentials are not logged");
    Ok(())
}
