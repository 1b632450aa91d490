//! `ctl payments why` and `ctl invoices why` explain the state of a payment or invoice.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::join;

use super::{ctl_error, lose_responses, manual_reviews, provider_ref, text, webhook_receiver};
use crate::support::{accepted, cluster, created, eventually, id, merchant, ok, sale};

async fn verdict(payment: &str) -> Result<String> {
    let shown = cluster().await?.ctl(&["payments", "why", payment]).await?;
    Ok(shown["verdict"].to_string())
}

fn timeline(shown: &Value) -> Vec<&str> {
    shown["story"].as_array().expect("a list").iter().filter_map(|row| row["what"].as_str()).collect()
}

#[tokio::test]
async fn the_history_of_a_payment_is_complete_and_ordered() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (receiver, endpoint) = webhook_receiver(&merchant).await?;
    lose_responses(&merchant, cluster, "1").await?;
    let review = async {
        let row = &manual_reviews(cluster, &merchant, 1).await?[0];
        let (operation, payment) = (text(row, "id"), text(row, "payment"));
        let verdict = verdict(&payment).await?;
        assert!(verdict.contains("needs manual review") && verdict.contains(&operation), "{verdict}");
        let charge = provider_ref(&merchant, &operation).await?;
        let resolve =
            ["operations", "resolve", &operation, "--unverified", "--outcome", "charged", "--provider-ref", &charge];
        cluster.ctl(&[&["--as", "ada"], &resolve[..]].concat()).await?;
        anyhow::Ok(())
    };
    let (response, done) = join!(merchant.pay(1500), review);
    done?;
    let payment = id(created(&response?))?;
    accepted(&merchant.refund(&payment, Some(500)).await?);
    merchant.wait_for_status(&payment, "partially_refunded").await?;
    receiver.wait_for_requests("/hooks", 2).await?;
    let complete = eventually("the complete history", async || {
        let shown = cluster.ctl(&["payments", "show", &payment]).await?;
        let delivered = timeline(&shown).iter().filter(|what| **what == "delivery").count();
        Ok((delivered == 2).then_some(shown))
    });
    let shown = complete.await?;
    let entries = shown["story"].as_array().expect("a list");
    let times: Vec<_> = entries.iter().map(|row| text(row, "at")).collect();
    assert!(times.is_sorted(), "ordered by time: {times:?}");
    let count = |what: &str| timeline(&shown).iter().filter(|kind| **kind == what).count();
    let counts = ["operation written", "operation sent", "operation ended", "refund", "event", "operator"].map(count);
    assert_eq!(counts, [2, 2, 2, 1, 2, 1], "{shown:#}");
    let operator = entries.iter().find(|row| row["what"] == "operator").expect("one");
    assert_eq!((&operator["actor"], &operator["action"]), (&"ada".into(), &"operations.resolve".into()));
    assert!(entries.iter().any(|row| row["endpoint"] == json!(endpoint) && row["status"] == "succeeded"));
    assert_eq!(shown["payment"]["status"], "partially_refunded");
    let verdict = shown["verdict"].to_string();
    assert!(verdict.contains("500 of 1500 was refunded"), "{verdict}");
    assert!(!shown.to_string().contains(&merchant.account.secret_key), "no secret");

    // The default output is lines.
    let lines = cluster.ctl_output(&["payments", "show", &payment]).await?;
    assert!(lines.code == 0 && lines.stdout.contains("operation ended"), "{lines:?}");
    ctl_error(cluster, &["payments", "show", "pay_00000000000000000000000000"]).await.map(drop)
}

#[tokio::test]
async fn verdicts_state_the_next_step() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (sold, held) = (merchant.charge(100).await?, merchant.hold(200).await?);
    assert!(verdict(&sold).await?.contains("has not settled yet; the provider is queried for its status at"));
    assert!(verdict(&held).await?.contains("The charge is authorized"));
    merchant.void(&held).await?;
    assert!(verdict(&held).await?.contains("cancelled before it settled"));
    merchant.mock(cluster, &["--class", "B", "--latency-ms", "9000"]).await?;
    let check_in_progress = async {
        let sending = async || Ok((merchant.books.in_flight().await? == 1).then_some(()));
        eventually("a request in flight", sending).await?;
        let listed = cluster.ctl(&["operations", "list", "--account", &merchant.account.id]).await?;
        let in_progress = listed["operations"].as_array().and_then(|rows| rows.first()).context("an operation")?;
        assert_eq!(in_progress["state"], "sending", "{listed}");
        let verdict = verdict(&text(in_progress, "payment")).await?;
        assert!(verdict.contains("has been in progress since"), "{verdict}");
        merchant.mock(cluster, &["--latency-ms", "0"]).await
    };
    let (response, checked) = join!(merchant.api.post("/v1/payments", sale(300)), check_in_progress);
    checked?;
    merchant.wait_until_finished(&id(created(&response?))?).await.map(drop)
}

#[tokio::test]
async fn invoices_why_explains_missing_collections() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let why = async |invoice: &str| anyhow::Ok(cluster.ctl(&["invoices", "why", invoice]).await?["why"].to_string());
    let customer = merchant.customer().await?;
    let invoice = async || {
        let body = json!({"customerId": customer, "currency": "USD", "amount": 900});
        id(created(&merchant.api.post("/v1/invoices", body).await?))
    };
    let schedule = async |invoice: &str, at: &str| {
        let path = format!("/v1/invoices/{invoice}/schedule");
        anyhow::Ok(ok(&merchant.api.post(&path, json!({"collectAt": at})).await?).clone())
    };
    let open = invoice().await?;
    assert!(why(&open).await?.contains("not scheduled"));

    created(&merchant.save_card(&customer, "tok_lost").await?);
    let later = invoice().await?;
    schedule(&later, "2999-01-01T00:00:00Z").await?;
    let verdict = why(&later).await?;
    assert!(
        verdict.contains("next attempt is made at 2999-01-01") && verdict.contains("the customer's default card"),
        "{verdict}"
    );

    let waiting_for_card = invoice().await?;
    schedule(&waiting_for_card, "2020-01-01T00:00:00Z").await?;
    let explanation = eventually("the failed attempt", async || {
        let verdict = why(&waiting_for_card).await?;
        Ok(verdict.contains("waits until its customer has another default card").then_some(verdict))
    });
    let verdict = explanation.await?;
    assert!(verdict.contains("Attempt 1 failed") && verdict.contains("lost_card"), "{verdict}");

    merchant.mock(cluster, &["--without", "payments.create"]).await?;
    assert!(why(&later).await?.contains("cannot take payments"));
    ok(&merchant.api.send(reqwest::Method::POST, &format!("/v1/invoices/{open}/void"), None).await?);
    assert!(why(&open).await?.contains("voided"));
    ctl_error(cluster, &["invoices", "why", "inv_00000000000000000000000000"]).await.map(drop)
}
