//! On every route that creates an object, an Idempotency-Key creates one object and returns one response.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Client;

use crate::support::{
    Merchant, Receiver, Reply, cluster, concurrently, conflict, created, eventually, id, invalid, is_replay, merchant,
    not_found, ok, with,
};

const UNKNOWN: &str = "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// A route that creates an object, with a body and a variant that differs in one field.
struct Creation {
    path: &'static str,
    body: Value,
    variant: Value,
    /// The table in which the objects are counted.
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
        variant: with(body.clone(), field, value),
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

async fn count(merchant: &Merchant, table: &str) -> Result<i64> {
    let query = format!("SELECT count(*) FROM {table} WHERE account_id = $1");
    let query = sqlx::query_scalar(sqlx::AssertSqlSafe(query)).bind(merchant.books.account);
    Ok(query.fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn thirty_concurrent_requests_with_one_key_create_one_object() -> Result<()> {
    let merchant = merchant().await?;
    for Creation { path, body, table, .. } in creations(&merchant).await? {
        let (before, api) = (count(&merchant, table).await?, keyed(&merchant, "one")?);
        let responses = concurrently(30, async |_| api.post(path, body.clone()).await).await?;
        for response in &responses {
            assert_eq!((response.status, &response.bytes), (201, &responses[0].bytes), "{path}: {}", response.body);
        }
        assert_eq!(
            responses.iter().filter(|response| !is_replay(response)).count(),
            1,
            "{path}: exactly one response is not a replay"
        );
        assert_eq!(count(&merchant, table).await?, before + 1, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn a_key_has_one_body_and_replays_its_first_response() -> Result<()> {
    let merchant = merchant().await?;
    for Creation { path, body, variant, .. } in creations(&merchant).await? {
        let api = keyed(&merchant, "k")?;
        let first = api.post(path, body.clone()).await?;
        created(&first);
        assert!(!is_replay(&first), "{path}");
        invalid(&api.post(path, variant.clone()).await?, "Idempotency-Key");
        // The key is checked before the customer is looked up.
        if variant.get("customerId").is_some() {
            invalid(&api.post(path, with(variant.clone(), "customerId", UNKNOWN)).await?, "Idempotency-Key");
        }
        let spaced = serde_json::to_vec_pretty(&body)?;
        let again = api.send(reqwest::Method::POST, path, Some(spaced)).await?;
        assert!(is_replay(&again), "{path}: {}", again.body);
        assert_eq!((again.status, &again.bytes), (first.status, &first.bytes), "{path}");
        // Another key, and no key.
        for api in [&keyed(&merchant, "other")?, &merchant.api] {
            let another = api.post(path, body.clone()).await?;
            assert!([200, 201].contains(&another.status) && !is_replay(&another), "{path}: {}", another.body);
            assert!(path == "/v1/plans" || another.body["id"] != first.body["id"], "{path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_replay_returns_the_original_response() -> Result<()> {
    let merchant = merchant().await?;
    let (api, body) = (keyed(&merchant, "k")?, json!({"email": "ada@example.com"}));
    let first = api.post("/v1/customers", body.clone()).await?;
    let path = format!("/v1/customers/{}", id(created(&first))?);
    ok(&merchant.api.post(&path, json!({"name": "Ada Lovelace"})).await?);
    assert_eq!(api.post("/v1/customers", body).await?.bytes, first.bytes);
    // An existing plan is returned with 200, and so is the replay.
    let price = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    created(&merchant.api.post("/v1/plans", price.clone()).await?);
    let (one, two) = (api.post("/v1/plans", price.clone()).await?, api.post("/v1/plans", price).await?);
    assert_eq!((one.status, is_replay(&one), two.status, is_replay(&two)), (200, false, 200, true));
    assert_eq!(one.bytes, two.bytes);
    Ok(())
}

#[tokio::test]
async fn a_rejected_request_does_not_consume_its_key() -> Result<()> {
    let merchant = merchant().await?;
    let api = keyed(&merchant, "k")?;
    let customer = json!({"email": "ada@example.com", "externalId": "u-1"});
    let existing = id(created(&merchant.api.post("/v1/customers", customer.clone()).await?))?;
    conflict(&api.post("/v1/customers", customer).await?);
    invalid(&api.post("/v1/customers", json!({"email": "nobody"})).await?, "email");
    created(&api.post("/v1/customers", json!({"email": "eve@example.com"})).await?);

    let invoice = json!({"customerId": UNKNOWN, "currency": "USD", "amount": 700});
    not_found(&api.post("/v1/invoices", invoice.clone()).await?);
    created(&api.post("/v1/invoices", with(invoice, "customerId", existing.clone())).await?);

    // The provider refuses to save the card.
    let card = json!({"customerId": existing, "paymentToken": "tok_ok"});
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
async fn a_replay_waits_for_a_card_being_saved() -> Result<()> {
    let merchant = merchant().await?;
    let body = json!({"customerId": merchant.customer().await?, "paymentToken": "tok_ok"});
    merchant.mock(cluster().await?, &["--latency-ms", "1500"]).await?;
    let api = keyed(&merchant, "k")?;
    let second = async {
        let first_operation = async || Ok((merchant.books.operations().await? == 1).then_some(()));
        eventually("the first operation", first_operation).await?;
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
async fn stored_secrets_are_encrypted_and_deleted_with_the_endpoint() -> Result<()> {
    let merchant = merchant().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let (api, body) = (keyed(&merchant, "k")?, json!({"url": receiver.url("/in")}));
    let first = api.post("/v1/webhook_endpoints", body.clone()).await?;
    let secret = created(&first)["secret"].as_str().context("a secret")?.to_owned();
    let stored = "SELECT k::text, k.sealed_answer FROM creation_keys k WHERE account_id = $1";
    let (row, sealed): (String, Vec<u8>) =
        sqlx::query_as(stored).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
    let random = secret.trim_start_matches("whsec_");
    assert!(!row.contains(random) && !String::from_utf8_lossy(&sealed).contains(random));
    // The first response is replayed unchanged even after the secret was rotated.
    let path = format!("/v1/webhook_endpoints/{}", id(&first.body)?);
    ok(&merchant.api.post(&format!("{path}/rotate_secret"), json!({})).await?);
    assert_eq!(api.post("/v1/webhook_endpoints", body.clone()).await?.bytes, first.bytes);
    ok(&merchant.api.delete(&path).await?);
    assert_eq!(count(&merchant, "creation_keys").await?, 0);
    let second = api.post("/v1/webhook_endpoints", body).await?;
    assert!(!is_replay(&second) && created(&second)["id"] != first.body["id"]);
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
