//! What a clock shows, who may read and move it, and what carries its time.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Client, Cluster};

use crate::signing::{Signed, live};
use crate::support::{
    Browser, Merchant, Receiver, Reply, accepted, cluster, created, ids, invalid, merchant, ok, refused, sale, uuid,
};

const ADVANCE: &str = "/v1/test_clock/advance";

/// Everyone's time, by the clock of the database.
async fn everyones_time(merchant: &Merchant) -> Result<String> {
    let now = r#"SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"#;
    Ok(sqlx::query_scalar(now).fetch_one(&merchant.books.db).await?)
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_clock_shows_everyones_time_until_it_is_advanced_and_then_ticks_on() -> Result<()> {
    let merchant = merchant().await?;
    let before = everyones_time(&merchant).await?;
    let shown = merchant.now().await?;
    assert!(before <= shown && shown <= everyones_time(&merchant).await?, "{shown}");
    let mut whole = merchant.clock().await?;
    assert_eq!(whole["now"].take().as_str().map(str::len), Some(shown.len()));
    assert_eq!(whole, json!({"object": "test_clock", "now": null}), "and nothing else");

    let mut last = shown;
    for by in ["1 second", "1 month", "2 years"] {
        let to = merchant.advance(by).await?;
        assert!(last < to);
        let (first, second) = (merchant.now().await?, merchant.now().await?);
        assert!(to <= first && first < second, "{to}, {first}, {second}");
        last = second;
    }
    assert!(everyones_time(&merchant).await? < last);
    let other = Merchant::new(cluster().await?).await?;
    assert!(other.now().await? < last, "each account has a clock of its own");
    Ok(())
}

#[tokio::test]
async fn a_clock_is_moved_ahead_and_no_farther_than_four_years() -> Result<()> {
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
    let elsewhere = to.replace('Z', "+00:00");
    ok(&advance(json!({"to": elsewhere})).await?);
    // Back, and nowhere.
    invalid(&merchant.ask_to_advance(&to).await?, "to");
    invalid(&merchant.ask_to_advance(&everyones_time(&merchant).await?).await?, "to");
    assert!(merchant.now().await? >= to);
    Ok(())
}

#[tokio::test]
async fn only_secret_keys_of_test_accounts_have_a_clock() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let browser = Browser::of(cluster, &merchant.account)?.api;
    let live = live(cluster).await?;
    for (method, target) in [(Method::GET, "/v1/test_clock"), (Method::POST, ADVANCE)] {
        // Before anything is said of the body.
        let signed = Signed::new(&live, method.clone(), target, None)?.sign().send(&live.api).await?;
        refused(&signed, 403, "permission_denied");
        refused(&browser.send(method, target, None).await?, 403, "permission_denied");
    }
    let capabilities = Signed::new(&live, Method::GET, "/v1/capabilities", None)?.sign().send(&live.api).await?;
    let rows = ok(&capabilities)["data"].as_array().context("rows")?;
    let of_clocks: Vec<_> = rows.iter().filter(|row| text(row, "operation").starts_with("test_clock.")).collect();
    assert_eq!(of_clocks.len(), 2);
    assert!(of_clocks.iter().all(|row| row["state"] == "unavailable"), "{of_clocks:?}");
    Ok(())
}

#[tokio::test]
async fn whatever_happens_to_an_account_happens_at_its_own_time() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let earlier = merchant.customer().await?;
    let to = merchant.advance("40 days").await?;
    let customer = merchant.customer().await?;
    let held = merchant.hold(1000).await?;
    let sold = merchant.sold(1000).await?;
    ok(&merchant.capture(&held, None).await?);
    let refund = accepted(&merchant.refund(&sold, None).await?).clone();
    let card = created(&merchant.save_card(&customer, "tok_ok").await?).clone();
    let address = json!({"customerId": customer, "line1": "1 Main St", "country": "US"});
    let plan = json!({"name": "Gold", "amount": 100, "currency": "USD", "interval": "month"});
    let invoice = json!({"customerId": customer, "currency": "USD", "amount": 500, "paymentTerms": "net_7"});
    let mut made = vec![refund, card, merchant.payment(&sold).await?];
    for (path, body) in [("/v1/addresses", address), ("/v1/plans", plan), ("/v1/invoices", invoice)] {
        made.push(created(&merchant.api.post(path, body).await?).clone());
    }
    for object in &made {
        assert!(text(object, "createdAt") >= to.as_str(), "{object}");
    }
    let invoice = made.last().context("an invoice")?;
    assert!(text(invoice, "issuedAt") >= to.as_str());
    assert!(text(invoice, "dueAt") >= merchant.later(&to, "6 days 23 hours").await?.as_str());
    assert_eq!(ids(&merchant.api.get("/v1/customers").await?), [customer, earlier], "the newest first");
    for payment in [&held, &sold] {
        merchant.becomes(payment, if payment == &sold { "refunded" } else { "pending_settlement" }).await?;
        assert!(merchant.history(payment).await?.iter().all(|(_, at)| *at >= to));
    }
    // What is not business goes by everyone's time.
    let session =
        Browser::of(cluster, &merchant.account)?.api.send(Method::POST, "/v1/checkout_sessions", None).await?;
    assert!(text(created(&session), "expiresAt") < to.as_str());
    Ok(())
}

#[tokio::test]
async fn webhooks_are_sent_at_once_and_kept_by_everyones_time() -> Result<()> {
    let merchant = merchant().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let to = merchant.advance("2 years").await?;
    let endpoint =
        created(&merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/in")})).await?).clone();
    assert!(text(&endpoint, "createdAt") < to.as_str(), "endpoints are told by everyone's time");
    let sold = merchant.sold(1000).await?;
    let event = receiver.hears("/in", 1).await?[0].event();
    assert_eq!((&event["type"], &event["data"]["object"]["id"]), (&json!("payment.captured"), &json!(sold)));
    assert!(text(&event, "timestamp") >= to.as_str(), "what happened, happened by the account's time");
    let deliveries = merchant.api.get("/v1/webhook_deliveries").await?;
    let delivery = &ok(&deliveries)["data"][0];
    assert!(text(delivery, "createdAt") < to.as_str() && text(delivery, "attemptedAt") < to.as_str(), "{delivery}");

    // Both tables are cut by the month in which something was really written.
    for (table, id) in [("events", text(&event, "id")), ("webhook_deliveries", text(delivery, "id"))] {
        let query = match table {
            "events" => "SELECT tableoid::regclass::text FROM events WHERE id = $1",
            _ => "SELECT tableoid::regclass::text FROM webhook_deliveries WHERE id = $1",
        };
        let partition: String = sqlx::query_scalar(query).bind(uuid(id)?).fetch_one(&merchant.books.db).await?;
        let month = everyones_time(&merchant).await?[..7].replace('-', "_");
        assert_eq!(partition, format!("{table}_{month}"));
    }
    Ok(())
}

#[tokio::test]
async fn every_process_goes_by_a_clock_from_its_first_advance_on() -> Result<()> {
    let cluster = Cluster::builder().api(2).worker(1).scheduler(1).env("KEY_CACHE_MS", "1000").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let other = Client::new(&cluster.api_url(1))?.bearer(&merchant.account.secret_key)?;
    let to = merchant.later(&merchant.now().await?, "30 days").await?;
    // The other process believes by now that there is no clock.
    created(&other.post("/v1/payments", sale(100)).await?);
    merchant.advance_to(&to).await?;
    let payment = other.post("/v1/payments", sale(100)).await?;
    assert!(text(created(&payment), "createdAt") >= to.as_str(), "{}", payment.body);
    Ok(())
}
