//! What is about a person is gone after the deletion of a customer, wherever it was stored.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Response;

use super::CUSTOMERS;
use crate::support::{
    Cardholder, Merchant, Payer, Receiver, RedisMonitor, Reply, Request, Shop, cluster, created, dump, eventually, id,
    merchant, not_found, ok,
};

/// A receiver that repeats what it receives.
fn echo(request: &Request) -> Reply {
    let body = String::from_utf8_lossy(&request.body).into_owned();
    Reply::Response { status: 200, headers: Vec::new(), body }
}

/// Creates an object with an idempotency key that contains the mark.
async fn create(merchant: &Merchant, path: &str, mark: &str, body: &Value) -> Result<Response> {
    let key = format!("{mark}{path}");
    merchant.api.header("idempotency-key", &key)?.post(path, body.clone()).await
}

/// A customer all of whose fields contain the mark.
fn marked_customer(mark: &str) -> Value {
    json!({
        "email": format!("{mark}@example.com"), "name": format!("Ada {mark}"), "phone": format!("+44 {mark}"),
        "externalId": format!("u-{mark}"), "metadata": {"note": format!("likes {mark}")},
        "customFields": [{"name": "Size", "type": "text", "value": format!("M {mark}")}],
    })
}

fn marked_address(mark: &str, customer: &str) -> Value {
    let mut address = json!({"customerId": customer, "country": "GB"});
    for field in ["firstName", "lastName", "company", "line1", "line2", "city", "state", "postalCode", "phone"] {
        address[field] = format!("{field} {mark}").into();
    }
    address
}

/// A mark that nothing else contains.
fn new_mark(merchant: &Merchant) -> String {
    let end = merchant.account.id.len() - 12;
    format!("zq{}", merchant.account.id[end..].to_lowercase())
}

/// The number of deliveries whose responses were stored.
async fn stored_responses(merchant: &Merchant) -> Result<i64> {
    let query = "SELECT count(*) FROM webhook_deliveries WHERE account_id = $1 AND response_body IS NOT NULL";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

/// Bills the customer in every way, and ends what would continue.
async fn use_billing(merchant: &Merchant, customer: &str) -> Result<()> {
    let plan = json!({"name": "Gold", "amount": 900, "currency": "USD", "interval": "month"});
    let plan = id(&merchant.api.post("/v1/plans", plan).await?.body)?;
    let subscription = json!({"customerId": customer, "planId": plan});
    let subscription = id(created(&merchant.api.post("/v1/subscriptions", subscription).await?))?;
    ok(&merchant.api.send(Method::POST, &format!("/v1/subscriptions/{subscription}/cancel"), None).await?);
    let recurring = json!({
        "customerId": customer, "cadence": {"unit": "monthly", "interval": 1}, "startDate": "2030-01-01",
        "mode": "auto_send",
        "template": {"currency": "USD", "paymentTerms": "net_30",
            "items": [{"description": "Rent", "quantity": 1, "unitAmount": 100}]},
    });
    let recurring = id(created(&merchant.api.post("/v1/recurring_invoices", recurring).await?))?;
    ok(&merchant.api.send(Method::POST, &format!("/v1/recurring_invoices/{recurring}/cancel"), None).await?);
    Ok(())
}

/// Pays with a 3-D Secure challenge as this customer.
async fn pay_with_challenge(shop: &Shop, customer: &str) -> Result<String> {
    let token = shop.token("4000002500003155").await?;
    let body = json!({"amount": 800, "currency": "USD", "paymentToken": token, "customerId": customer});
    let payment = created(&shop.pay_with(body).await?).clone();
    let cardholder = Cardholder::new()?;
    let bank = cardholder.open_bank_page(&payment).await?;
    cardholder.open(&cardholder.decide(&bank, "confirm").await?).await?;
    id(&payment)
}

#[tokio::test]
async fn nothing_about_a_deleted_customer_stays_in_postgres_or_redis() -> Result<()> {
    let (cluster, receiver) = (cluster().await?, Receiver::start(echo).await?);
    let shop = Shop::new(cluster, &[]).await?;
    let (merchant, monitor) = (&shop.merchant, RedisMonitor::of(cluster).await?);
    let mark = &new_mark(merchant);
    created(&merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/in")})).await?);
    let customer = id(created(&create(merchant, CUSTOMERS, mark, &marked_customer(mark)).await?))?;
    let path = format!("{CUSTOMERS}/{customer}");
    ok(&merchant.api.post(&path, json!({"name": format!("Ada King {mark}")})).await?);
    let address = id(created(&create(merchant, "/v1/addresses", mark, &marked_address(mark, &customer)).await?))?;
    for role in ["billing", "shipping"] {
        ok(&merchant.api.post(&format!("/v1/addresses/{address}/default"), json!({"type": role})).await?);
    }
    let card = json!({
        "customerId": customer, "paymentToken": shop.token("4242424242424242").await?,
        "metadata": {"holder": format!("Ada {mark}")}, "externalId": format!("card-{mark}"),
    });
    let card = id(created(&create(merchant, "/v1/payment_methods", mark, &card).await?))?;
    let charge = json!({"amount": 500, "currency": "USD", "paymentMethodId": card});
    let charged = id(created(&merchant.api.post("/v1/payments", charge).await?))?;
    let challenged = pay_with_challenge(&shop, &customer).await?;
    use_billing(merchant, &customer).await?;
    let invoice = json!({"customerId": customer, "amount": 700, "currency": "USD"});
    let invoice = created(&merchant.api.post("/v1/invoices", invoice).await?).clone();
    let payer = Payer::for_object(&invoice, &cluster.api_url(0))?;
    payer.open().await?.assert_shows(200, &[mark]);
    payer.pay(&shop.upstream_token("4242424242424242").await?).await?.assert_shows(200, &[]);
    eventually("responses", async || Ok((stored_responses(merchant).await? >= 8).then_some(()))).await?;
    assert!(dump(merchant).await?.matches(mark.as_str()).count() >= 20, "the mark is found wherever it is stored");

    let deleted = json!({"id": customer, "object": "customer", "deleted": true});
    assert_eq!(ok(&merchant.api.delete(&path).await?), &deleted);
    eventually("customer.deleted", async || {
        let deleted =
            receiver.all().into_iter().map(|request| request.event()).find(|event| event["type"] == "customer.deleted");
        Ok(deleted)
    })
    .await?;
    for (place, content) in [("the dump", dump(merchant).await?), ("Redis", monitor.recorded())] {
        let found = content.find(mark.as_str()).map(|at| &content[at.saturating_sub(200)..at + mark.len()]);
        assert_eq!(found, None, "{place} holds the mark");
    }
    payer.open().await?.assert_shows(200, &[]);
    let expected =
        ["customer.created", "customer.updated", "customer.deleted"].map(|kind| (kind.to_owned(), deleted.clone()));
    assert_eq!(merchant.books.events(&customer).await?, expected);
    let of_card = merchant.books.events(&card).await?;
    assert_eq!(of_card[0].1, json!({"id": card, "object": "payment_method", "deleted": true}));
    assert_eq!((of_card.len(), of_card[1].0.as_str()), (2, "payment_method.detached"));
    assert_eq!((&of_card[1].1["customerId"], &of_card[1].1["metadata"]), (&json!(customer), &Value::Null));
    let listed = merchant.api.get(&format!("/v1/events?objectId={customer}")).await?;
    assert_eq!(ok(&listed)["data"].as_array().context("a list")?.len(), 3);
    for payment in [charged, challenged] {
        let payment = merchant.payment(&payment).await?;
        assert_eq!((&payment["customerId"], &payment["status"]), (&json!(customer), &json!("pending_settlement")));
    }
    Ok(())
}

/// An attempt in progress sends what the event was; a receiver that repeats it brings nothing back.
#[tokio::test]
async fn a_response_that_arrives_after_the_deletion_is_not_stored() -> Result<()> {
    for status in [200, 500] {
        let receiver = Receiver::start(move |request| {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            let reply = Reply::Response { status, headers: Vec::new(), body };
            if request.nth == 0 { reply.held() } else { reply }
        })
        .await?;
        let merchant = merchant().await?;
        let mark = new_mark(&merchant);
        let hook = json!({"url": receiver.url("/in"), "enabledEvents": ["customer.created"]});
        created(&merchant.api.post("/v1/webhook_endpoints", hook).await?);
        let customer = id(created(&merchant.api.post(CUSTOMERS, marked_customer(&mark)).await?))?;
        receiver.wait_for_requests("/in", 1).await?;
        ok(&merchant.api.delete(&format!("{CUSTOMERS}/{customer}")).await?);
        receiver.release();
        let recorded = eventually("the recorded attempt", async || {
            let page = merchant.api.get("/v1/webhook_deliveries").await?;
            let deliveries = page.body["data"].as_array().cloned().unwrap_or_default();
            Ok(deliveries.into_iter().find(|delivery| delivery["responseStatus"] == status))
        })
        .await?;
        assert_eq!(recorded["responseBody"], Value::Null);
        assert!(!dump(&merchant).await?.contains(&mark), "after {status}");
        // A replay sends what remains, and its response is stored.
        if status == 200 {
            let replay = format!("/v1/webhook_deliveries/{}/replay", id(&recorded)?);
            ok(&merchant.api.send(Method::POST, &replay, None).await?);
            let again = receiver.wait_for_requests("/in", 2).await?;
            let remains = json!({"id": customer, "object": "customer", "deleted": true});
            assert_eq!(again[1].event()["data"]["object"], remains);
            eventually("a response", async || Ok((stored_responses(&merchant).await? == 1).then_some(()))).await?;
        }
    }
    Ok(())
}

/// A version that does not know of deletions creates nothing for a deleted customer and writes nothing to it.
#[tokio::test]
async fn the_database_refuses_rows_of_deleted_customers() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let invoice = json!({"customerId": customer, "amount": 700, "currency": "USD"});
    let invoice = id(created(&merchant.api.post("/v1/invoices", invoice).await?))?;
    ok(&merchant.api.delete(&format!("{CUSTOMERS}/{customer}")).await?);
    not_found(&merchant.api.get(&format!("/v1/payment_methods/{card}")).await?);
    for (statement, constraint) in [
        (
            "INSERT INTO addresses (id, account_id, customer_id, line1, country, created_at)
             VALUES (gen_random_uuid(), $1, $2, 'x', 'GB', now())",
            "addresses_customer",
        ),
        (
            "INSERT INTO payments (id, account_id, provider_account_id, customer_id, status, capture, currency, amount_requested,
                                   amount, created_at)
             SELECT gen_random_uuid(), $1, provider_account_id, $2, 'processing', true, 'USD', 1, 1, now()
             FROM accounts WHERE id = $1",
            "payments_customer",
        ),
        (
            "UPDATE invoices SET status = 'scheduled', collect_at = now() WHERE account_id = $1 AND customer_id = $2",
            "invoices_customer",
        ),
        ("UPDATE customers SET email = 'a@b' WHERE account_id = $1 AND id = $2", "customers_deleted_is_empty"),
    ] {
        let query = sqlx::query(statement).bind(merchant.books.account).bind(crate::support::uuid(&customer)?);
        let error = query.execute(&merchant.books.db).await.expect_err(statement);
        assert_eq!(error.as_database_error().and_then(|error| error.constraint()), Some(constraint));
    }
    // An open invoice is still owed.
    let schedule = json!({"collectAt": "2020-01-01T00:00:00Z"});
    crate::support::conflict(&merchant.api.post(&format!("/v1/invoices/{invoice}/schedule"), schedule).await?);
    Ok(())
}
