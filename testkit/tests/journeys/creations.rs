//! One Idempotency-Key, one object, one answer, on every route that creates something.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Answer, Client};

use crate::support::{
    Merchant, Receiver, Reply, cluster, conflict, created, eventually, id, invalid, merchant, not_found, ok, together,
    with,
};

const UNKNOWN: &str = "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// A route that creates, a body for it, and a body that differs in one thing.
struct Creation {
    path: &'static str,
    body: Value,
    other: Value,
    /// Where the objects are counted.
    table: &'static str,
}

async fn creations(merchant: &Merchant) -> Result<Vec<Creation>> {
    let api = &merchant.api;
    let customer = merchant.customer().await?;
    let price = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    let plan = id(created(&api.post("/v1/plans", with(price.clone(), "amount", 1)).await?))?;
    let item = json!({"description": "Rent", "quantity": 1, "unitAmount": 500});
    let template = json!({"currency": "USD", "items": [item]});
    let creation = |path, table, body: Value, field, value: Value| Creation {
        path,
        other: with(body.clone(), field, value),
        body,
        table,
    };
    Ok(vec![
        creation("/v1/customers", "customers", json!({"email": "ada@example.com"}), "email", json!("eve@example.com")),
        creation(
            "/v1/addresses",
            "addresses",
            json!({"customerId": customer, "line1": "1 Main St", "country": "US"}),
            "line1",
            json!("2 Main St"),
        ),
        creation(
            "/v1/payment_methods",
            "payment_methods",
            json!({"customerId": customer, "paymentToken": "tok_ok"}),
            "paymentToken",
            json!("tok_partial"),
        ),
        creation("/v1/plans", "plans", price, "name", json!("Silver")),
        creation(
            "/v1/subscriptions",
            "subscriptions",
            json!({"customerId": customer, "planId": plan, "startAt": "2090-01-01"}),
            "startAt",
            json!("2090-01-02"),
        ),
        creation(
            "/v1/invoices",
            "invoices",
            json!({"customerId": customer, "currency": "USD", "amount": 700}),
            "amount",
            json!(701),
        ),
        creation(
            "/v1/recurring_invoices",
            "recurring_invoices",
            json!({"customerId": customer, "cadence": {"unit": "monthly"}, "startDate": "2090-01-15", "template": template}),
            "startDate",
            json!("2090-01-16"),
        ),
        creation("/v1/payment_links", "payment_links", json!({"amount": 500, "currency": "USD"}), "amount", json!(501)),
        creation(
            "/v1/webhook_endpoints",
            "webhook_endpoints",
            json!({"url": "https://a.example/in"}),
            "url",
            json!("https://b.example/in"),
        ),
    ])
}

fn keyed(merchant: &Merchant, key: &str) -> Result<Client> {
    merchant.api.header("idempotency-key", key)
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

async fn count(merchant: &Merchant, table: &str) -> Result<i64> {
    let query = format!("SELECT count(*) FROM {table} WHERE account_id = $1");
    let query = sqlx::query_scalar(sqlx::AssertSqlSafe(query)).bind(merchant.books.account);
    Ok(query.fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn thirty_at_once_with_one_key_create_one_object() -> Result<()> {
    let merchant = merchant().await?;
    for Creation { path, body, table, .. } in creations(&merchant).await? {
        let (before, api) = (count(&merchant, table).await?, keyed(&merchant, "one")?);
        let answers = together(30, async |_| api.post(path, body.clone()).await).await?;
        for answer in &answers {
            assert_eq!((answer.status, &answer.bytes), (201, &answers[0].bytes), "{path}: {}", answer.body);
        }
        assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1, "{path}: one was the first");
        assert_eq!(count(&merchant, table).await?, before + 1, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn a_key_has_one_body_and_its_first_answer() -> Result<()> {
    let merchant = merchant().await?;
    for Creation { path, body, other, .. } in creations(&merchant).await? {
        let api = keyed(&merchant, "k")?;
        let first = api.post(path, body.clone()).await?;
        created(&first);
        assert!(!is_replay(&first), "{path}");
        invalid(&api.post(path, other.clone()).await?, "Idempotency-Key");
        // Before anything that it names is looked at.
        if other.get("customerId").is_some() {
            invalid(&api.post(path, with(other.clone(), "customerId", UNKNOWN)).await?, "Idempotency-Key");
        }
        let spaced = serde_json::to_vec_pretty(&body)?;
        let again = api.send(reqwest::Method::POST, path, Some(spaced)).await?;
        assert!(is_replay(&again), "{path}: {}", again.body);
        assert_eq!((again.status, &again.bytes), (first.status, &first.bytes), "{path}");
        // Another key, and none.
        for api in [&keyed(&merchant, "other")?, &merchant.api] {
            let another = api.post(path, body.clone()).await?;
            assert!([200, 201].contains(&another.status) && !is_replay(&another), "{path}: {}", another.body);
            assert!(path == "/v1/plans" || another.body["id"] != first.body["id"], "{path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_replay_shows_the_object_as_it_was() -> Result<()> {
    let merchant = merchant().await?;
    let (api, body) = (keyed(&merchant, "k")?, json!({"email": "ada@example.com"}));
    let first = api.post("/v1/customers", body.clone()).await?;
    let path = format!("/v1/customers/{}", id(created(&first))?);
    ok(&merchant.api.post(&path, json!({"name": "Ada Lovelace"})).await?);
    assert_eq!(api.post("/v1/customers", body).await?.bytes, first.bytes);
    // A plan that was there is answered with 200, and so is the replay.
    let price = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    created(&merchant.api.post("/v1/plans", price.clone()).await?);
    let (one, two) = (api.post("/v1/plans", price.clone()).await?, api.post("/v1/plans", price).await?);
    assert_eq!((one.status, is_replay(&one), two.status, is_replay(&two)), (200, false, 200, true));
    assert_eq!(one.bytes, two.bytes);
    Ok(())
}

#[tokio::test]
async fn a_refusal_does_not_use_a_key_up() -> Result<()> {
    let merchant = merchant().await?;
    let api = keyed(&merchant, "k")?;
    let customer = json!({"email": "ada@example.com", "externalId": "u-1"});
    let taken = id(created(&merchant.api.post("/v1/customers", customer.clone()).await?))?;
    conflict(&api.post("/v1/customers", customer).await?);
    invalid(&api.post("/v1/customers", json!({"email": "nobody"})).await?, "email");
    created(&api.post("/v1/customers", json!({"email": "eve@example.com"})).await?);

    let invoice = json!({"customerId": UNKNOWN, "currency": "USD", "amount": 700});
    not_found(&api.post("/v1/invoices", invoice.clone()).await?);
    created(&api.post("/v1/invoices", with(invoice, "customerId", taken.clone())).await?);

    // A card that the provider will not save.
    let card = json!({"customerId": taken, "paymentToken": "tok_ok"});
    merchant.mock(cluster().await?, &["--refuse"]).await?;
    conflict(&api.post("/v1/payment_methods", card.clone()).await?);
    merchant.mock(cluster().await?, &[]).await?;
    let saved = api.post("/v1/payment_methods", card.clone()).await?;
    assert!(!is_replay(&saved), "{}", saved.body);
    created(&saved);
    assert!(is_replay(&api.post("/v1/payment_methods", card).await?));
    Ok(())
}

#[tokio::test]
async fn a_replay_waits_for_the_card_that_is_being_saved() -> Result<()> {
    let merchant = merchant().await?;
    let body = json!({"customerId": merchant.customer().await?, "paymentToken": "tok_ok"});
    merchant.mock(cluster().await?, &["--latency-ms", "1500"]).await?;
    let api = keyed(&merchant, "k")?;
    let second = async {
        let begun = async || Ok((merchant.books.operations().await? == 1).then_some(()));
        eventually("the first intent", begun).await?;
        api.post("/v1/payment_methods", body.clone()).await
    };
    let (first, second) = tokio::try_join!(api.post("/v1/payment_methods", body.clone()), second)?;
    assert_eq!(created(&first)["status"], "active");
    assert!(!is_replay(&first) && is_replay(&second));
    assert_eq!(first.bytes, second.bytes);
    assert_eq!(merchant.books.operations().await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_secret_in_a_kept_answer_is_sealed_and_ends_with_its_endpoint() -> Result<()> {
    let merchant = merchant().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let (api, body) = (keyed(&merchant, "k")?, json!({"url": receiver.url("/in")}));
    let first = api.post("/v1/webhook_endpoints", body.clone()).await?;
    let secret = created(&first)["secret"].as_str().context("a secret")?.to_owned();
    let kept = "SELECT k::text, k.sealed_answer FROM creation_keys k WHERE account_id = $1";
    let (row, sealed): (String, Vec<u8>) =
        sqlx::query_as(kept).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
    let random = secret.trim_start_matches("whsec_");
    assert!(!row.contains(random) && !String::from_utf8_lossy(&sealed).contains(random));
    // Whatever becomes of the secret, the first answer is what it was.
    let path = format!("/v1/webhook_endpoints/{}", id(&first.body)?);
    ok(&merchant.api.post(&format!("{path}/rotate_secret"), json!({})).await?);
    assert_eq!(api.post("/v1/webhook_endpoints", body.clone()).await?.bytes, first.bytes);
    ok(&merchant.api.delete(&path).await?);
    assert_eq!(count(&merchant, "creation_keys").await?, 0);
    let anew = api.post("/v1/webhook_endpoints", body).await?;
    assert!(!is_replay(&anew) && created(&anew)["id"] != first.body["id"]);
    Ok(())
}

#[tokio::test]
async fn a_key_belongs_to_one_account_and_one_route() -> Result<()> {
    let (one, other) = (merchant().await?, merchant().await?);
    let body = json!({"email": "ada@example.com"});
    let mine = keyed(&one, "shared")?.post("/v1/customers", body.clone()).await?;
    let theirs = keyed(&other, "shared")?.post("/v1/customers", body).await?;
    assert!(!is_replay(&theirs) && created(&mine)["id"] != created(&theirs)["id"]);
    let link = keyed(&one, "shared")?.post("/v1/payment_links", json!({"amount": 5, "currency": "USD"})).await?;
    assert!(!is_replay(&link) && link.status == 201);
    for bad in [&*"x".repeat(256), "a b", ""] {
        invalid(
            &keyed(&one, bad)?.post("/v1/customers", json!({"email": "ada@example.com"})).await?,
            "Idempotency-Key",
        );
    }
    Ok(())
}
