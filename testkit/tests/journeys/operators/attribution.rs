//! Every request and all money can be attributed to the key that asked.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Client, Cluster, form};

use super::text;
use crate::support::{Merchant, accepted, eventually, id, ok, sale};

/// A new secret key of this merchant: its id, and a client with it.
async fn another_key(cluster: &Cluster, merchant: &Merchant) -> Result<(String, Client)> {
    let key = cluster.ctl(&["keys", "create", "--account", &merchant.account.id, "--kind", "secret"]).await?;
    Ok((text(&key, "id"), merchant.api.bearer(&text(&key, "key"))?))
}

/// The line of a log that says how a request was answered, by a text that it has.
async fn answered(log: impl Fn() -> String, has: &[&str]) -> Result<Value> {
    eventually("the line of a request", async || {
        let log = log();
        let line = log.lines().find(|line| line.contains("\"answered\"") && has.iter().all(|text| line.contains(text)));
        Ok(line.map(serde_json::from_str).transpose()?)
    })
    .await
}

async fn last_used(cluster: &Cluster, key: &str) -> Result<Option<String>> {
    let listed = cluster.ctl(&["keys", "list"]).await?;
    let row = listed["keys"].as_array().context("a list")?.iter().find(|row| row["id"] == key).context("the key")?;
    Ok(row["last_used_at"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn the_key_behind_a_refund_is_found() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).env("LOG_FORMAT", "json").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let ((shop, selling), (clerk, refunding)) =
        (another_key(&cluster, &merchant).await?, another_key(&cluster, &merchant).await?);
    let payment = id(&selling.post("/v1/payments", sale(1500)).await?.body)?;
    let answer = refunding.post(&format!("/v1/payments/{payment}/refund"), json!({"amount": 500})).await?;
    let (request, refund) = (answer.header("request-id").context("a request id")?.to_owned(), id(accepted(&answer))?);
    merchant.becomes(&payment, "partially_refunded").await?;

    // By what the merchant has: the refund, or the Request-Id of its answer.
    for known in [&refund, &request] {
        let why = cluster.ctl(&["why", known]).await?;
        assert_eq!((&why["found"][0]["requested_by"], &why["found"][0]["payment"]), (&json!(clerk), &json!(payment)));
        assert_eq!(why["found"][0]["request_id"], json!(request));
    }
    let why = cluster.ctl(&["payments", "why", &payment]).await?;
    let story = why["story"].as_array().context("a story")?;
    let asked = |kind: &str| story.iter().find(|row| row["kind"] == kind && row["what"] == "operation written");
    assert_eq!(asked("sale").context("the sale")?["requested_by"], json!(shop));
    assert_eq!(asked("refund").context("the refund")?["requested_by"], json!(clerk));
    let refunded = story.iter().find(|row| row["what"] == "refund").context("the refund's row")?;
    assert_eq!((&refunded["id"], &refunded["requested_by"]), (&json!(refund), &json!(clerk)));

    // And by the log, which has every request with who asked and from where.
    let api = cluster.api(0);
    let line = answered(|| api.log(), &[&request]).await?;
    let expected = json!({"account": merchant.account.id, "key": clerk, "client": "127.0.0.1", "method": "POST",
        "route": "/v1/payments/{id}/refund", "status": 202});
    for (name, value) in expected.as_object().into_iter().flatten() {
        assert_eq!(&line[name], value, "{name} of {line}");
    }
    assert!(line["duration_ms"].is_u64() && line["code"].is_null(), "{line}");
    Ok(())
}

#[tokio::test]
async fn a_refused_request_is_logged_with_what_is_known_of_it() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).env("LOG_FORMAT", "json").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let key = merchant.account.secret_key.clone();
    let id = cluster.ctl(&["keys", "list", "--account", &merchant.account.id, "--kind", "secret"]).await?;
    let id = text(&id["keys"][0], "id");
    let last = if key.ends_with('0') { "1" } else { "0" };
    let wrong = format!("{}{last}", &key[..key.len() - 1]);
    let guessed = merchant.api.bearer(&wrong)?.get("/v1/customers").await?;
    let unknown = merchant.api.get("/v1/customers/cus_1").await?;
    let nobody = Client::new(merchant.api.base())?.get("/v1/payments").await?;
    assert_eq!([guessed.status, unknown.status, nobody.status], [401, 404, 401]);
    let api = cluster.api(0);
    let line = async |answer: &testkit::Answer| {
        answered(|| api.log(), &[answer.header("request-id").expect("every answer has one")]).await
    };
    let said = line(&guessed).await?;
    assert_eq!((&said["claimed_key"], &said["code"]), (&json!(id), &json!("authentication_failed")), "{said}");
    assert!(
        said["key"].is_null() && said["account"].is_null(),
        "nothing is attributed to a key that was not shown: {said}"
    );
    let said = line(&unknown).await?;
    assert_eq!(
        (&said["key"], &said["code"], &said["status"]),
        (&json!(id), &json!("not_found"), &json!(404)),
        "{said}"
    );
    let said = line(&nobody).await?;
    assert!(said["key"].is_null() && said["claimed_key"].is_null() && said["client"] == "127.0.0.1", "{said}");
    assert!(!api.log().contains(&key[40..key.len() - 1]), "no key is logged");
    Ok(())
}

#[tokio::test]
async fn when_a_key_was_last_used_is_known_and_written_at_most_once_a_minute() -> Result<()> {
    let cluster = Cluster::builder().api(1).env("KEY_CACHE_MS", "0").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let ((used, first), (after, second), (unused, _)) = (
        another_key(&cluster, &merchant).await?,
        another_key(&cluster, &merchant).await?,
        another_key(&cluster, &merchant).await?,
    );
    ok(&first.get("/v1/customers").await?);
    let noted = eventually("its use", async || last_used(&cluster, &used).await).await?;
    for _ in 0..20 {
        ok(&first.get("/v1/customers").await?);
    }
    // What is noted of another key later was in line behind all of these.
    ok(&second.get("/v1/customers").await?);
    eventually("the use of the other", async || last_used(&cluster, &after).await).await?;
    assert_eq!(last_used(&cluster, &used).await?, Some(noted), "one write a minute");
    assert_eq!(last_used(&cluster, &unused).await?, None);
    // A key that is refused is not used.
    cluster.ctl(&["keys", "revoke", &unused]).await?;
    Ok(())
}

#[tokio::test]
async fn the_gateway_logs_who_asked_and_from_where() -> Result<()> {
    let mut cluster = Cluster::builder().gateway(1).env("LOG_FORMAT", "json").start().await?;
    let known = cluster.gateway_account("attributed", &[]).await?;
    let client = Client::new(&cluster.gateway_url(0))?.header("content-type", "application/x-www-form-urlencoded")?;
    let ask = async |username: &str, api_key: &str| {
        let body = form([("username", username), ("api_key", api_key)]).into_bytes();
        client.send(Method::POST, "/apis/account.php", Some(body)).await
    };
    let secret = "4242424242424242";
    for (username, key, code) in
        [("attributed", known.api_key.as_str(), "00"), ("attributed", "gwk_wrong", "09"), (secret, "gwk_wrong", "01")]
    {
        let answer = ask(username, key).await?;
        let said = answer.body["response"]["code"].as_str().unwrap_or("00").to_owned();
        assert_eq!(said, code, "{}", answer.body);
    }
    client.get("/services/field").await?;
    let gateway = cluster.gateway(0);
    let line = answered(|| gateway.log(), &["account.php", "\"00\""]).await?;
    assert_eq!((&line["account"], &line["client"]), (&json!("attributed"), &json!("127.0.0.1")), "{line}");
    let line = answered(|| gateway.log(), &["account.php", "\"09\""]).await?;
    assert!(line["account"].is_null() && line["claimed_account"] == "attributed", "{line}");
    let line = answered(|| gateway.log(), &["account.php", "\"01\""]).await?;
    assert!(line["account"].is_null() && line["claimed_account"].is_null(), "{line}");
    let line = answered(|| gateway.log(), &["/services/field"]).await?;
    assert!(line["client"] == "127.0.0.1" && line["status"].is_u64(), "{line}");
    let log = gateway.log();
    assert!(!log.contains(secret) && !log.contains(&known.api_key), "what was sent is not logged");
    Ok(())
}
