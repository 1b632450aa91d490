//! A provider that processes nothing for a while. Background work continues when it is back and uses up no attempt;
//! requests with a waiting client fail with a reason.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Cluster, ProcessKind};
use uuid::Uuid;

use super::cluster_of_faulty_accounts;
use super::reconciliation::{book, compare_now};
use crate::support::{Merchant, Shop, accepted, concurrently, created, eventually, id, metric, ok, sale};

const LONG_AGO: &str = "2020-01-01T00:00:00Z";
const APPROVES: &str = "4242424242424242";
/// Requests at once.
const AT_ONCE: usize = 25;
/// Invoices that wait for a provider: more than may be sent in a second.
const BACKLOG: usize = 160;
/// A second, unwanted charge.
const SECOND: &str = "mock_0123456789abcdef01234567";

/// Creates invoices of one customer that are due at once, many at a time.
async fn due_invoices(merchant: &Merchant, customer: &str, count: usize) -> Result<Vec<String>> {
    let mut due = Vec::new();
    while due.len() < count {
        let batch = concurrently(AT_ONCE.min(count - due.len()), async |_| {
            let body = json!({"customerId": customer, "currency": "USD", "amount": 700});
            let invoice = id(created(&merchant.api.post("/v1/invoices", body).await?))?;
            let path = format!("/v1/invoices/{invoice}/schedule");
            ok(&merchant.api.post(&path, json!({"collectAt": LONG_AGO})).await?);
            Ok(invoice)
        });
        due.extend(batch.await?);
    }
    Ok(due)
}

/// The numbers of operations that wait for the provider and that have failed.
async fn waiting(merchant: &Merchant) -> Result<(i64, i64)> {
    let query =
        "SELECT count(*) FILTER (WHERE state = 'ready' AND not_processed > 0), count(*) FILTER (WHERE state = 'failed')
                 FROM operations WHERE account_id = $1";
    Ok(sqlx::query_as(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

async fn events(merchant: &Merchant, kind: &str) -> Result<i64> {
    let query = "SELECT count(*) FROM events WHERE account_id = $1 AND type = $2";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).bind(kind).fetch_one(&merchant.books.db).await?)
}

async fn get_invoice(merchant: &Merchant, id: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("/v1/invoices/{id}")).await?).clone())
}

/// The numbers of all and of failed collection attempts of an account.
async fn attempts(merchant: &Merchant) -> Result<(i64, i64)> {
    let query =
        "SELECT count(*), count(*) FILTER (WHERE status = 'failed') FROM collection_attempts WHERE account_id = $1";
    Ok(sqlx::query_as(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn a_gateway_outage_uses_up_no_collection_attempt() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(1).gateway(1).start().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let merchant = &shop.merchant;
    let (customer, card) = shop.saved_card(APPROVES).await?;
    let sold = id(created(&shop.pay(APPROVES, 1000).await?))?;
    let held = json!({"paymentMethodId": card, "amount": 800, "currency": "USD", "capture": false});
    let held = id(created(&shop.pay_with(held).await?))?;
    cluster.gateway(0).kill9()?;

    let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    let plan = id(&merchant.api.post("/v1/plans", plan).await?.body)?;
    let subscription = json!({"customerId": customer, "planId": plan});
    let subscription = id(created(&merchant.api.post("/v1/subscriptions", subscription).await?))?;
    let refund = accepted(&merchant.refund(&sold, Some(300)).await?).clone();
    let invoices = due_invoices(merchant, &customer, 8).await?;
    eventually("all operations to wait", async || Ok((waiting(merchant).await?.0 >= 10).then_some(()))).await?;

    // A waiting client gets a reason that does not blame the card.
    let paid =
        merchant.api.post("/v1/payments", json!({"paymentMethodId": card, "amount": 5, "currency": "USD"})).await?;
    assert_eq!(created(&paid)["status"], "failed");
    assert_eq!(paid.body["failureCode"], "provider_unavailable", "{paid:?}");
    assert_eq!(events(merchant, "payment.failed").await?, 1);
    for changed in [merchant.capture(&held, None).await?, merchant.void(&held).await?] {
        assert_eq!((changed.status, changed.body["error"]["code"].as_str()), (409, Some("conflict")));
        let message = changed.body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("could not be reached") && !message.contains("refused"), "{message}");
    }
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(attempts(merchant).await?, (9, 0), "no attempt may fail");
    for kind in ["invoice.payment_failed", "subscription.past_due", "payment.refund_failed"] {
        assert_eq!(events(merchant, kind).await?, 0, "{kind}");
    }
    assert_eq!(get_invoice(merchant, &invoices[0]).await?["status"], "scheduled");
    let current = ok(&merchant.api.get(&format!("/v1/subscriptions/{subscription}")).await?).clone();
    assert_ne!(current["status"], "past_due");
    eventually("the open breaker", async || {
        let open =
            metric(&cluster, ProcessKind::Scheduler, "provider_breakers_open{mode=\"test\",provider=\"card_gateway\"}")
                .await?;
        Ok((open == 1.0).then_some(()))
    })
    .await?;
    let doctor = cluster.ctl_output(&["doctor"]).await?;
    assert!(doctor.stdout.contains("process no requests"), "{}", doctor.stdout);

    cluster.gateway(0).restart().await?;
    for invoice_id in &invoices {
        eventually("all invoices to be paid", async || {
            Ok((get_invoice(merchant, invoice_id).await?["status"] == "paid").then_some(()))
        })
        .await?;
    }
    eventually("the refund", async || {
        let payment = merchant.payment(&sold).await?;
        Ok((payment["refunds"][0]["status"] == "succeeded").then_some(()))
    })
    .await?;
    assert_eq!(refund["status"], "pending");
    eventually("the first cycle", async || {
        let current = ok(&merchant.api.get(&format!("/v1/subscriptions/{subscription}")).await?).clone();
        let query =
            "SELECT count(*) FROM invoices WHERE account_id = $1 AND subscription_id IS NOT NULL AND status = 'paid'";
        let paid: i64 = sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        Ok((current["status"] == "active" && paid == 1).then_some(()))
    })
    .await?;
    assert_eq!(attempts(merchant).await?, (9, 0), "each invoice is paid by its first attempt");
    assert_eq!(shop.max_sales_per_reference().await?, 1);
    ok(&merchant.capture(&held, None).await?);
    eventually("the closed breaker", async || {
        let query = "SELECT count(*) FROM provider_breakers";
        let open: i64 = sqlx::query_scalar(query).fetch_one(&merchant.books.db).await?;
        Ok((open == 0).then_some(()))
    })
    .await
}

#[tokio::test]
async fn an_open_breaker_sends_probes_and_then_a_bounded_backlog() -> Result<()> {
    let cluster = cluster_of_faulty_accounts().await?;
    let merchant = Merchant::new(&cluster).await?;
    let other = Merchant::new(&cluster).await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    merchant.mock(&cluster, &["--refuse"]).await?;
    due_invoices(&merchant, &customer, BACKLOG).await?;
    eventually("all operations to wait", async || Ok((waiting(&merchant).await?.0 == BACKLOG as i64).then_some(())))
        .await?;
    let not_processed = async || {
        let outcome =
            "payments_operations_total{mode=\"test\",provider=\"mock\",kind=\"sale\",outcome=\"not_processed\"}";
        metric(&cluster, ProcessKind::Worker, outcome).await
    };
    assert!(not_processed().await? >= BACKLOG as f64);
    let breaker = "SELECT failures FROM provider_breakers WHERE account_id = $1";
    let failures: i32 = sqlx::query_scalar(breaker).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
    assert!(failures >= 5, "{failures}");

    // Another account at the same provider is still served, and its collections start.
    let other_customer = other.customer().await?;
    created(&other.save_card(&other_customer, "tok_ok").await?);
    let due = due_invoices(&other, &other_customer, 1).await?;
    eventually("the other account's invoice", async || {
        Ok((get_invoice(&other, &due[0]).await?["status"] == "paid").then_some(()))
    })
    .await?;
    assert_eq!(created(&other.pay(100).await?)["status"], "pending_settlement");

    merchant.mock(&cluster, &[]).await?;
    eventually("all invoices to be paid", async || {
        let query = "SELECT count(*) FROM invoices WHERE account_id = $1 AND status = 'paid'";
        let paid: i64 = sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        Ok((paid == BACKLOG as i64).then_some(()))
    })
    .await?;
    // The number of charges in the busiest second, by the mock's ledger.
    let busiest: i64 = sqlx::query_scalar(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM mock.transactions t JOIN provider_accounts p ON p.id = t.account
                             WHERE p.account_id = $1 GROUP BY date_trunc('second', t.created_at)) s",
    )
    .bind(merchant.books.account)
    .fetch_one(&merchant.books.db)
    .await?;
    assert!(busiest <= 120, "{busiest} charges in one second exceed the limit");
    assert_eq!(attempts(&merchant).await?, (BACKLOG as i64, 0));
    merchant.books.audit().await
}

#[tokio::test]
async fn unprocessed_operations_fail_with_a_reason() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("PROVIDER_RETRY_LIMIT_S", "4").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    let sold = merchant.charge(1000).await?;
    merchant.mock(&cluster, &["--refuse"]).await?;
    accepted(&merchant.refund(&sold, Some(10)).await?);
    let due = due_invoices(&merchant, &customer, 1).await?;
    let failed = eventually("the attempt to fail", async || {
        let page = merchant.api.get(&format!("/v1/invoices/{}/attempts", due[0])).await?;
        let attempt = ok(&page)["data"][0].clone();
        Ok((attempt["status"] == "failed").then_some(attempt))
    })
    .await?;
    assert_eq!((&failed["declineCode"], &failed["declineType"]), (&json!("provider_unavailable"), &json!("soft")));
    let refund = eventually("the refund to fail", async || {
        let refund = merchant.payment(&sold).await?["refunds"][0].clone();
        Ok((refund["status"] == "failed").then_some(refund))
    })
    .await?;
    assert_eq!(refund["failureCode"], "provider_unavailable", "{refund}");
    assert!(refund["failureMessage"].as_str().is_some_and(|message| !message.is_empty()), "{refund}");
    let query = "SELECT payload::jsonb -> 'data' ->> 'refundId' FROM events WHERE account_id = $1 AND type = 'payment.refund_failed'";
    let refund_id: Option<String> =
        sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
    assert_eq!(refund_id.as_deref(), refund["id"].as_str(), "the event names the refund");
    let exhausted = metric(
        &cluster,
        ProcessKind::Worker,
        "payments_provider_retries_exhausted_total{mode=\"test\",provider=\"mock\"}",
    )
    .await?;
    assert_eq!(exhausted, 2.0);
    Ok(())
}

#[tokio::test]
async fn a_reversal_never_fails_unprocessed() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("PROVIDER_RETRY_LIMIT_S", "1").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--refuse"]).await?;
    let failed = id(created(&merchant.api.post("/v1/payments", sale(900)).await?))?;
    // The provider charged it nevertheless, as its statement shows.
    let query = "SELECT reference FROM operations WHERE payment_id = $1";
    let reference: String =
        sqlx::query_scalar(query).bind(crate::support::uuid(&failed)?).fetch_one(&merchant.books.db).await?;
    book(&merchant, SECOND, &reference, 900).await?;
    compare_now(&merchant).await?;
    let reversal: Uuid = eventually("the reversal", async || {
        let query = "SELECT id FROM operations WHERE account_id = $1 AND kind = 'reverse' AND not_processed >= 3";
        Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_optional(&merchant.books.db).await?)
    })
    .await?;
    merchant.mock(&cluster, &[]).await?;
    eventually("the reversal's end", async || {
        let query = "SELECT state::text FROM operations WHERE id = $1";
        let state: String = sqlx::query_scalar(query).bind(reversal).fetch_one(&merchant.books.db).await?;
        anyhow::ensure!(state != "failed", "it failed");
        Ok((state == "succeeded").then_some(()))
    })
    .await?;
    let voided = "SELECT voided_at IS NOT NULL FROM mock.transactions WHERE id = $1";
    let voided: bool = sqlx::query_scalar(voided).bind(SECOND).fetch_one(&merchant.books.db).await?;
    assert!(voided, "the second charge must be voided");
    Ok(())
}

#[tokio::test]
async fn configuration_errors_do_not_count_against_cards() -> Result<()> {
    let cluster = cluster_of_faulty_accounts().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let merchant = &shop.merchant;
    let (customer, card) = shop.saved_card(APPROVES).await?;
    // The gateway account does not support this currency, and our configuration does not know that.
    cluster.run_gateway(&["account", "set", "--username", &shop.gateway_account.username, "--currency", "USD"]).await?;
    let body = json!({"paymentMethodId": card, "amount": 500, "currency": "EUR"});
    let failed = merchant.api.post("/v1/payments", body).await?;
    assert_eq!((&created(&failed)["status"], &failed.body["failureCode"]), (&json!("failed"), &json!("configuration")));
    let invoice_body = json!({"customerId": customer, "currency": "EUR", "amount": 700});
    let due = id(created(&merchant.api.post("/v1/invoices", invoice_body).await?))?;
    ok(&merchant.api.post(&format!("/v1/invoices/{due}/schedule"), json!({"collectAt": LONG_AGO})).await?);
    eventually("the operation to wait", async || Ok((waiting(merchant).await?.0 == 1).then_some(()))).await?;
    let errors = metric(
        &cluster,
        ProcessKind::Worker,
        "payments_configuration_errors_total{mode=\"test\",provider=\"card_gateway\"}",
    )
    .await?;
    assert!(errors >= 2.0, "{errors}");
    // Dollars are still processed: an error in one currency does not affect the whole account.
    let body = json!({"paymentMethodId": card, "amount": 500, "currency": "USD"});
    assert_eq!(created(&merchant.api.post("/v1/payments", body).await?)["status"], "pending_settlement");
    cluster
        .run_gateway(&[
            "account",
            "set",
            "--username",
            &shop.gateway_account.username,
            "--currency",
            "USD",
            "--currency",
            "EUR",
        ])
        .await?;
    eventually("the invoice to be paid", async || {
        Ok((get_invoice(merchant, &due).await?["status"] == "paid").then_some(()))
    })
    .await?;
    assert_eq!(attempts(merchant).await?, (1, 0));
    Ok(())
}

#[tokio::test]
async fn a_gateway_fee_is_reversed_as_an_amount_mismatch() -> Result<()> {
    let cluster = cluster_of_faulty_accounts().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let merchant = &shop.merchant;
    let (customer, card) = shop.saved_card(APPROVES).await?;
    cluster
        .run_gateway(&[
            "account",
            "set",
            "--username",
            &shop.gateway_account.username,
            "--convenience-fee-percent",
            "250",
        ])
        .await?;
    let body = json!({"paymentMethodId": card, "amount": 10_000, "currency": "USD"});
    let failed = merchant.api.post("/v1/payments", body).await?;
    assert_eq!(
        (&created(&failed)["status"], &failed.body["failureCode"]),
        (&json!("failed"), &json!("amount_mismatch"))
    );
    let wait_for_records = async |expected: &str| {
        eventually("the reversal", async || {
            let records = shop.records().await?;
            Ok((records == expected).then_some(()))
        })
        .await
    };
    wait_for_records("sale 10250 approved, void 10250 approved").await?;
    let anomaly: (String, i64) = sqlx::query_as("SELECT kind, amount FROM charge_anomalies WHERE account_id = $1")
        .bind(merchant.books.account)
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(anomaly, ("amount_mismatch".to_owned(), 10_250));

    // A collection gets a soft decline, and the card stays usable.
    let due = due_invoices(merchant, &customer, 1).await?;
    eventually("the attempt", async || {
        let page = merchant.api.get(&format!("/v1/invoices/{}/attempts", due[0])).await?;
        let attempt = ok(&page)["data"][0].clone();
        Ok((attempt["declineCode"] == "amount_mismatch" && attempt["declineType"] == "soft").then_some(()))
    })
    .await?;
    let mismatches = metric(
        &cluster,
        ProcessKind::Scheduler,
        "payments_amount_mismatches_last_hour{mode=\"test\",provider=\"card_gateway\"}",
    );
    let _ = mismatches.await.context("the metric does not exist")?;
    eventually("two mismatches in the metric", async || {
        let count = metric(
            &cluster,
            ProcessKind::Scheduler,
            "payments_amount_mismatches_last_hour{mode=\"test\",provider=\"card_gateway\"}",
        )
        .await?;
        Ok((count >= 2.0).then_some(()))
    })
    .await
}
