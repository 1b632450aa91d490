//! What each change writes besides its row: an event, log lines and metrics.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Row};
use testkit::{Client, Cluster, ProcessKind};

use crate::support::{Browser, Merchant, cluster, created, eventually, id, merchant, ok, payment, sale, uuid, with};

/// An event, and whether the transaction that wrote it also wrote the current version of the row.
struct Event {
    payload: Value,
    with_its_row: bool,
}

/// The events about an object of `table`, oldest first. `xmin` is the transaction that wrote the current version of a
/// row.
async fn events(merchant: &Merchant, table: &'static str, object: &str) -> Result<Vec<(String, Event)>> {
    let query = format!(
        "SELECT e.type, e.payload, e.xmin = o.xmin AS together FROM events e, {table} o WHERE e.account_id = $1
         AND o.id = $2 AND e.payload::json -> 'data' -> 'object' ->> 'id' = $3 ORDER BY e.created_at, e.id"
    );
    let rows = sqlx::query(AssertSqlSafe(query)).bind(merchant.books.account).bind(uuid(object)?).bind(object);
    let rows = rows.fetch_all(&merchant.books.db).await?;
    rows.iter()
        .map(|row| {
            let payload = serde_json::from_str(row.try_get::<&str, _>("payload")?)?;
            Ok((row.try_get("type")?, Event { payload, with_its_row: row.try_get("together")? }))
        })
        .collect()
}

/// Asserts that the last event about an object has this type, shows the current object and was written with it.
async fn assert_last_event(merchant: &Merchant, table: &'static str, kind: &str, object: &Value) -> Result<()> {
    let (name, event) = events(merchant, table, &id(object)?).await?.pop().context("no event")?;
    assert_eq!(name, kind);
    assert_eq!(event.payload["type"], kind);
    assert_eq!(&event.payload["data"]["object"], object, "the object as the API returns it");
    assert_eq!(event.payload["livemode"], false);
    assert!(event.payload["id"].as_str().is_some_and(|id| id.starts_with("evt_")));
    assert!(event.payload["timestamp"].is_string());
    assert!(event.with_its_row, "{kind}: one transaction must write the change and the event");
    Ok(())
}

#[tokio::test]
async fn every_payment_outcome_writes_one_event() -> Result<()> {
    let merchant = merchant().await?;
    for (token, capture, kind) in [
        ("tok_ok", true, "payment.captured"),
        ("tok_partial", true, "payment.captured"),
        ("tok_ok", false, "payment.authorized"),
        ("tok_partial", false, "payment.authorized"),
        ("tok_insufficient", true, "payment.declined"),
    ] {
        let body = with(payment(1000, token), "capture", capture);
        let response = merchant.pay_with_key(&format!("{token}-{capture}"), body).await?;
        assert_last_event(&merchant, "payments", kind, created(&response)).await?;
        assert_eq!(events(&merchant, "payments", &id(&response.body)?).await?.len(), 1, "exactly one event");
    }
    Ok(())
}

#[tokio::test]
async fn settlement_writes_an_event() -> Result<()> {
    let merchant = merchant().await?;
    for token in ["tok_ok", "tok_partial"] {
        let response = merchant.pay_with_key(token, payment(1000, token)).await?;
        let paid = id(created(&response))?;
        assert_eq!(response.body["settled"], false);
        merchant.age_charges("61 seconds").await?;
        let settled = eventually("settlement", async || {
            let response = merchant.api.get(&format!("/v1/payments/{paid}")).await?;
            Ok((response.body["settled"] == true).then_some(response.body))
        })
        .await?;
        assert_eq!(settled["status"], "settled");
        assert_eq!(settled["amountCaptured"], response.body["amountCaptured"]);
        assert_last_event(&merchant, "payments", "payment.settled", &settled).await?;
        assert_eq!(events(&merchant, "payments", &paid).await?.len(), 2);
        let replay = merchant.pay_with_key(token, payment(1000, token)).await?;
        assert_eq!(replay.bytes, response.bytes, "a replay returns the original response, not the current payment");
    }
    Ok(())
}

#[tokio::test]
async fn customer_and_card_changes_write_events() -> Result<()> {
    let merchant = merchant().await?;
    let response = merchant.api.post("/v1/customers", json!({"email": "ada@example.com"})).await?;
    let customer = id(created(&response))?;
    assert_last_event(&merchant, "customers", "customer.created", &response.body).await?;
    let path = format!("/v1/customers/{customer}");
    let updated = merchant.api.post(&path, json!({"name": "Ada"})).await?;
    assert_last_event(&merchant, "customers", "customer.updated", ok(&updated)).await?;
    merchant.api.post(&path, json!({"name": "Ada"})).await?;
    assert_eq!(events(&merchant, "customers", &customer).await?.len(), 2, "an update without changes writes no event");
    let card = merchant.save_card(&customer, "tok_ok").await?;
    assert_last_event(&merchant, "payment_methods", "payment_method.created", created(&card)).await?;
    Ok(())
}

#[tokio::test]
async fn invoice_changes_write_events() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let body = json!({"customerId": customer, "currency": "USD", "items": [
        {"description": "Hours", "quantity": 2, "unitAmount": 50},
    ]});
    let issued = merchant.api.post("/v1/invoices", body).await?;
    assert_last_event(&merchant, "invoices", "invoice.issued", created(&issued)).await?;
    let path = format!("/v1/invoices/{}/void", id(&issued.body)?);
    let voided = merchant.api.post(&path, json!({})).await?;
    assert_last_event(&merchant, "invoices", "invoice.voided", ok(&voided)).await?;
    merchant.api.post(&path, json!({})).await?;
    assert_eq!(events(&merchant, "invoices", &id(&issued.body)?).await?.len(), 2, "voiding again writes no event");
    Ok(())
}

#[tokio::test]
async fn subscription_changes_write_events() -> Result<()> {
    let merchant = merchant().await?;
    let body = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", body).await?))?;
    let body = json!({"customerId": merchant.customer().await?, "planId": plan, "startAt": "2099-01-31"});
    let subscription = merchant.api.post("/v1/subscriptions", body).await?;
    assert_last_event(&merchant, "subscriptions", "subscription.created", created(&subscription)).await?;
    let path = format!("/v1/subscriptions/{}/cancel", id(&subscription.body)?);
    let cancelled = merchant.api.post(&path, json!({})).await?;
    assert_last_event(&merchant, "subscriptions", "subscription.cancelled", ok(&cancelled)).await?;
    merchant.api.post(&path, json!({})).await?;
    assert_eq!(
        events(&merchant, "subscriptions", &id(&subscription.body)?).await?.len(),
        2,
        "cancelling again writes no event"
    );
    Ok(())
}

#[tokio::test]
async fn recurring_invoice_changes_write_events() -> Result<()> {
    let merchant = merchant().await?;
    let body = json!({
        "customerId": merchant.customer().await?, "cadence": {"unit": "monthly"}, "startDate": "2090-01-01",
        "template": {"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 500}]},
    });
    let recurring_invoice = id(created(&merchant.api.post("/v1/recurring_invoices", body).await?))?;
    for (action, kind) in [("pause", "paused"), ("resume", "resumed"), ("cancel", "cancelled")] {
        let response =
            merchant.api.post(&format!("/v1/recurring_invoices/{recurring_invoice}/{action}"), json!({})).await?;
        assert_last_event(&merchant, "recurring_invoices", &format!("recurring_invoice.{kind}"), ok(&response)).await?;
    }
    assert_eq!(events(&merchant, "recurring_invoices", &recurring_invoice).await?.len(), 3, "one event each");
    Ok(())
}

/// Waits for a log line that contains this text and parses it as JSON.
async fn line_with(log: impl Fn() -> String, text: &str) -> Result<Value> {
    eventually(text, async || {
        let log = log();
        let line = log.lines().find(|line| line.contains(text));
        Ok(line.map(serde_json::from_str).transpose()?)
    })
    .await
}

#[tokio::test]
async fn logs_have_the_request_id_and_no_secret() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("LOG_FORMAT", "json").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let browser = Browser::for_account(&cluster, &merchant.account)?;
    let session = browser.session().await?;
    let exchanged = browser.exchange(&session, "tok_ok").await?;
    let token = created(&exchanged)["paymentToken"].as_str().context("a token")?.to_owned();
    let paid = merchant.api.post("/v1/payments", payment(100, &token)).await?;
    created(&paid);
    let request_id = paid.header("request-id").context("a request id")?.to_owned();
    // Rejected requests and lost responses log more than successful ones.
    merchant.api.post("/v1/payments", payment(100, &token)).await?;
    merchant.api.bearer(&merchant.account.secret_key[..60])?.get("/v1/payments").await?;
    merchant.mock(&cluster, &["--lose-responses", "1"]).await?;
    merchant.pay(100).await?;
    let endpoint = merchant.api.post("/v1/webhook_endpoints", json!({"url": "https://hooks.example/in"})).await?;
    let first = created(&endpoint)["secret"].as_str().context("a secret")?.to_owned();
    let rotate = format!("/v1/webhook_endpoints/{}/rotate_secret", id(&endpoint.body)?);
    let rotated = merchant.api.post(&rotate, json!({})).await?;
    let second = ok(&rotated)["secret"].as_str().context("a secret")?.to_owned();

    for kind in [ProcessKind::Api, ProcessKind::Worker] {
        let process = if kind == ProcessKind::Api { cluster.api(0) } else { cluster.worker(0) };
        let line = line_with(|| process.log(), &request_id).await?;
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
    let (secret, publishable) = (merchant.account.secret_key.clone(), merchant.account.publishable_key.clone());
    for process in cluster.processes() {
        let log = process.log();
        // Only the last characters of a key are secret.
        for secret in [&secret[40..], &publishable[40..], &token, &session, &first[6..], &second[6..]] {
            assert!(!log.contains(secret), "{} logs a secret", process.kind().name());
        }
        for line in log.lines() {
            serde_json::from_str::<Value>(line).with_context(|| format!("a line that is not JSON: {line}"))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_process_has_health_and_metrics() -> Result<()> {
    let cluster = cluster().await?;
    let merchant = merchant().await?;
    merchant.api.post("/v1/payments", sale(100)).await?;
    for (kind, metric) in [
        (ProcessKind::Api, "http_requests_total"),
        (ProcessKind::Worker, "payments_operations_total"),
        (ProcessKind::Scheduler, "scheduler_ticks_total"),
    ] {
        let internal = Client::new(&cluster.metrics_url(kind, 0))?;
        for path in ["/healthz", "/readyz"] {
            assert_eq!(internal.get(path).await?.status, 200, "{} {path}", kind.name());
        }
        eventually(metric, async || {
            let metrics = internal.get("/metrics").await?;
            assert_eq!(metrics.status, 200);
            Ok(String::from_utf8(metrics.bytes)?.contains(metric).then_some(()))
        })
        .await?;
    }
    // The public listener does not serve them.
    let outside = Client::new(&cluster.api_url(0))?;
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(outside.get(path).await?.status, 404);
    }
    Ok(())
}

/// The partitions of a table, without its default one.
async fn months(merchant: &Merchant, table: &str) -> Result<Vec<String>> {
    let parts = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = $1::regclass AND c.relname NOT LIKE '%default' ORDER BY 1",
    );
    Ok(parts.bind(table).fetch_all(&merchant.books.db).await?)
}

#[tokio::test]
async fn only_partitions_past_retention_are_dropped() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).env("RETENTION_MONTHS", "2").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let mut retained = Vec::new();
    for table in ["events", "webhook_deliveries"] {
        for ago in ["3 years", "4 months", "2 months", "1 month"] {
            let make = sqlx::query("SELECT ensure_monthly_partitions($1::regclass, now() - $2::interval, 1)");
            make.bind(table).bind(ago).execute(&merchant.books.db).await?;
        }
        let all = months(&merchant, table).await?;
        // The third month back may still contain rows younger than two months; earlier ones cannot.
        retained.push(all[2..].to_vec());
        assert_eq!(all.len(), 7, "four past months, the current one and two future ones: {all:?}");
    }
    cluster.add(ProcessKind::Scheduler).await?;
    for (table, retained) in ["events", "webhook_deliveries"].into_iter().zip(retained) {
        // The scheduler creates one more future month than the schema did.
        let only_retained = async || Ok(months(&merchant, table).await?.starts_with(&retained).then_some(()));
        eventually("old months to be dropped", only_retained).await?;
        // What a process of an earlier release with a clock far ahead would execute.
        let before = months(&merchant, table).await?;
        let drop = sqlx::query_scalar("SELECT drop_monthly_partitions($1::regclass, now() + interval '10 years')");
        let dropped: i32 = drop.bind(table).fetch_one(&merchant.books.db).await?;
        assert_eq!((dropped, months(&merchant, table).await?), (0, before), "{table}");
    }
    Ok(())
}
