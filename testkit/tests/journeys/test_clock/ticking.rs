//! Reading and advancing clocks, permissions, and which timestamps use them.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Client, Cluster};

use crate::signing::{Signed, live};
use crate::support::{
    Browser, Merchant, Receiver, Reply, accepted, cluster, created, eventually, ids, invalid, merchant, ok, refused,
    sale, uuid,
};

const ADVANCE: &str = "/v1/test_clock/advance";

/// Real time, by the clock of the database.
async fn real_time(merchant: &Merchant) -> Result<String> {
    let now = r#"SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"#;
    Ok(sqlx::query_scalar(now).fetch_one(&merchant.books.db).await?)
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

#[tokio::test]
async fn clocks_show_real_time_until_advanced_and_keep_ticking() -> Result<()> {
    let merchant = merchant().await?;
    let before = real_time(&merchant).await?;
    let displayed = merchant.now().await?;
    // A process knows the time of the database only as exactly as a round trip lasts, and refuses to work beyond this
    // tolerance.
    let (earliest, latest) =
        (merchant.later(&before, "-2 s").await?, merchant.later(&real_time(&merchant).await?, "2 s").await?);
    assert!(earliest <= displayed && displayed <= latest, "{displayed} is not from {earliest} to {latest}");
    let mut without_now = merchant.clock().await?;
    assert_eq!(without_now["now"].take().as_str().map(str::len), Some(displayed.len()));
    assert_eq!(without_now, json!({"object": "test_clock", "now": null}), "no other fields");

    let mut last = displayed;
    for by in ["1 second", "1 month", "2 years"] {
        let to = merchant.advance(by).await?;
        assert!(last < to);
        let first = merchant.now().await?;
        assert!(to <= first, "{first} is before {to}");
        let ticks = async || Ok(Some(merchant.now().await?).filter(|now| *now > first));
        let second = eventually("the clock to tick", ticks).await?;
        last = second;
    }
    assert!(real_time(&merchant).await? < last);
    let other = Merchant::new(cluster().await?).await?;
    assert!(other.now().await? < last, "each account has its own clock");
    Ok(())
}

#[tokio::test]
async fn clocks_advance_at_most_four_years() -> Result<()> {
    let merchant = merchant().await?;
    let advance = |body: Value| merchant.api.post(ADVANCE, body);
    for wrong in [
        json!({}),
        json!({"to": null}),
        json!({"to": 1_800_000_000}),
        json!({"to": "tomorrow"}),
        json!({"to": "2030-01-01"}),
        json!({"to": "2030-01-01T00:00:00"}),
        json!({"to": "2020-01-01T00:00:00Z"}),
        json!({"to": "9999-01-01T00:00:00Z"}),
        json!({"to": merchant.later(&merchant.now().await?, "1461 days 1 minute").await?}),
    ] {
        invalid(&advance(wrong).await?, "to");
    }
    let to = merchant.later(&merchant.now().await?, "2 days").await?;
    let with_offset = to.replace('Z', "+00:00");
    ok(&advance(json!({"to": with_offset})).await?);
    // Not to the current time, and not backwards.
    invalid(&merchant.request_advance(&to).await?, "to");
    invalid(&merchant.request_advance(&real_time(&merchant).await?).await?, "to");
    assert!(merchant.now().await? >= to);
    Ok(())
}

#[tokio::test]
async fn clocks_need_a_secret_test_key() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let browser = Browser::for_account(cluster, &merchant.account)?.api;
    let live = live(cluster).await?;
    for (method, target) in [(Method::GET, "/v1/test_clock"), (Method::POST, ADVANCE)] {
        // The permission is checked before the body.
        let signed = Signed::new(&live, method.clone(), target, None)?.sign().send(&live.api).await?;
        refused(&signed, 403, "permission_denied");
        refused(&browser.send(method, target, None).await?, 403, "permission_denied");
    }
    let capabilities = Signed::new(&live, Method::GET, "/v1/capabilities", None)?.sign().send(&live.api).await?;
    let rows = ok(&capabilities)["data"].as_array().context("rows")?;
    let clock_rows: Vec<_> = rows.iter().filter(|row| text(row, "operation").starts_with("test_clock.")).collect();
    assert_eq!(clock_rows.len(), 2);
    assert!(clock_rows.iter().all(|row| row["state"] == "unavailable"), "{clock_rows:?}");
    Ok(())
}

#[tokio::test]
async fn objects_are_dated_by_the_account_clock() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let earlier = merchant.customer().await?;
    let to = merchant.advance("40 days").await?;
    let customer = merchant.customer().await?;
    let held = merchant.hold(1000).await?;
    let captured = merchant.charge(1000).await?;
    ok(&merchant.capture(&held, None).await?);
    let refund = accepted(&merchant.refund(&captured, None).await?).clone();
    let card = created(&merchant.save_card(&customer, "tok_ok").await?).clone();
    let address = json!({"customerId": customer, "line1": "1 Main St", "country": "US"});
    let plan = json!({"name": "Gold", "amount": 100, "currency": "USD", "interval": "month"});
    let invoice = json!({"customerId": customer, "currency": "USD", "amount": 500, "paymentTerms": "net_7"});
    let mut made = vec![refund, card, merchant.payment(&captured).await?];
    for (path, body) in [("/v1/addresses", address), ("/v1/plans", plan), ("/v1/invoices", invoice)] {
        made.push(created(&merchant.api.post(path, body).await?).clone());
    }
    for object in &made {
        assert!(text(object, "createdAt") >= to.as_str(), "{object}");
    }
    let invoice = made.last().context("an invoice")?;
    assert!(text(invoice, "issuedAt") >= to.as_str());
    assert!(text(invoice, "dueAt") >= merchant.later(&to, "6 days 23 hours").await?.as_str());
    assert_eq!(ids(&merchant.api.get("/v1/customers").await?), [customer, earlier], "newest first");
    for payment in [&held, &captured] {
        merchant.wait_for_status(payment, if payment == &captured { "refunded" } else { "pending_settlement" }).await?;
        assert!(merchant.event_history(payment).await?.iter().all(|(_, at)| *at >= to));
    }
    // Checkout sessions use real time.
    let session =
        Browser::for_account(cluster, &merchant.account)?.api.send(Method::POST, "/v1/checkout_sessions", None).await?;
    assert!(text(created(&session), "expiresAt") < to.as_str());
    Ok(())
}

#[tokio::test]
async fn webhooks_are_sent_immediately_and_stored_by_real_time() -> Result<()> {
    let merchant = merchant().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let to = merchant.advance("2 years").await?;
    let endpoint =
        created(&merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/in")})).await?).clone();
    assert!(text(&endpoint, "createdAt") < to.as_str(), "endpoints use real time");
    let captured = merchant.charge(1000).await?;
    let event = receiver.wait_for_requests("/in", 1).await?[0].event();
    assert_eq!((&event["type"], &event["data"]["object"]["id"]), (&json!("payment.captured"), &json!(captured)));
    assert!(text(&event, "timestamp") >= to.as_str(), "events use the account's time");
    let deliveries = merchant.api.get("/v1/webhook_deliveries").await?;
    let delivery = &ok(&deliveries)["data"][0];
    assert!(text(delivery, "createdAt") < to.as_str() && text(delivery, "attemptedAt") < to.as_str(), "{delivery}");

    // Both tables are partitioned by the real month of writing.
    for (table, id) in [("events", text(&event, "id")), ("webhook_deliveries", text(delivery, "id"))] {
        let query = match table {
            "events" => "SELECT tableoid::regclass::text FROM events WHERE id = $1",
            _ => "SELECT tableoid::regclass::text FROM webhook_deliveries WHERE id = $1",
        };
        let partition: String = sqlx::query_scalar(query).bind(uuid(id)?).fetch_one(&merchant.books.db).await?;
        let month = real_time(&merchant).await?[..7].replace('-', "_");
        assert_eq!(partition, format!("{table}_{month}"));
    }
    Ok(())
}

#[tokio::test]
async fn every_process_uses_the_clock_after_the_first_advance() -> Result<()> {
    let cluster = Cluster::builder().api(2).worker(1).scheduler(1).env("KEY_CACHE_MS", "1000").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let other = Client::new(&cluster.api_url(1))?.bearer(&merchant.account.secret_key)?;
    let to = merchant.later(&merchant.now().await?, "30 days").await?;
    // The other process has cached that there is no clock.
    created(&other.post("/v1/payments", sale(100)).await?);
    merchant.advance_to(&to).await?;
    let payment = other.post("/v1/payments", sale(100)).await?;
    assert!(text(created(&payment), "createdAt") >= to.as_str(), "{}", payment.body);
    Ok(())
}
