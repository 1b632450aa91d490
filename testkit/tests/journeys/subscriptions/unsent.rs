//! While the provider processes nothing, a charge waits. If its collection is stopped meanwhile, nothing is charged later.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Cluster;

use super::{cancel, customer_with_card, plan, subscribe};
use crate::support::{Merchant, eventually, id, ok};

/// Waits until a charge was not processed, and stops the worker while the charge waits to be sent again.
async fn stop_with_waiting_charge(cluster: &mut Cluster, merchant: &Merchant) -> Result<()> {
    let waits = "SELECT count(*) = 1 FROM operations WHERE account_id = $1 AND kind = 'sale' AND finished_at IS NULL
                 AND state = 'ready' AND not_processed > 0";
    loop {
        eventually("a charge that waits", async || {
            let waits = sqlx::query_scalar::<_, bool>(waits).bind(merchant.books.account);
            Ok(waits.fetch_one(&merchant.books.db).await?.then_some(()))
        })
        .await?;
        cluster.worker(0).kill9()?;
        let still = sqlx::query_scalar::<_, bool>(waits).bind(merchant.books.account);
        if still.fetch_one(&merchant.books.db).await? {
            return Ok(());
        }
        // It was about to be sent again.
        cluster.worker(0).restart().await?;
    }
}

/// What becomes of the only invoice if `stop` stops its collection while the charge waits.
async fn invoice_after(stop: impl AsyncFnOnce(&Merchant, &Value, &str) -> Result<()>) -> Result<Value> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (customer, plan) = (customer_with_card(&merchant).await?, plan(&merchant, "month").await?);
    merchant.mock(&cluster, &["--refuse"]).await?;
    let subscription = subscribe(&merchant, json!({"customerId": customer, "planId": plan})).await?;
    stop_with_waiting_charge(&mut cluster, &merchant).await?;
    let invoices = merchant.api.get("/v1/invoices").await?.body;
    let invoice = id(&invoices["data"][0])?;
    stop(&merchant, &subscription, &invoice).await?;

    merchant.mock(&cluster, &[]).await?;
    cluster.worker(0).restart().await?;
    // A later payment shows that the provider and the worker are back.
    eventually("another payment", async || {
        let payment = merchant.pay(100).await?.body;
        Ok((payment["status"] == "pending_settlement").then_some(()))
    })
    .await?;
    eventually("the end of all operations", async || {
        let ended =
            sqlx::query_scalar("SELECT bool_and(finished_at IS NOT NULL) FROM operations WHERE account_id = $1");
        let ended: bool = ended.bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        Ok(ended.then_some(()))
    })
    .await?;
    let charged: Vec<i64> =
        sqlx::query_scalar("SELECT amount FROM mock.transactions").fetch_all(&merchant.books.db).await?;
    assert_eq!(charged, [100]);
    let attempts = merchant.api.get(&format!("/v1/invoices/{invoice}/attempts")).await?.body;
    assert_eq!(attempts["data"][0]["status"], "failed", "{attempts}");
    let payment = attempts["data"][0]["paymentId"].as_str().expect("a payment");
    assert_eq!(merchant.payment(payment).await?["status"], "failed");
    Ok(merchant.api.get(&format!("/v1/invoices/{invoice}")).await?.body)
}

#[tokio::test]
async fn a_cancelled_subscription_is_not_charged_when_the_provider_is_back() -> Result<()> {
    let invoice = invoice_after(async |merchant, subscription, _| {
        assert_eq!(ok(&cancel(merchant, &id(subscription)?).await?)["status"], "cancelled");
        Ok(())
    });
    assert_eq!(invoice.await?["status"], "open");
    Ok(())
}

/// The charge is being sent when the subscription is cancelled, so it may complete. The provider does not process it.
#[tokio::test]
async fn a_charge_that_was_not_processed_after_a_cancellation_is_not_sent_again() -> Result<()> {
    let invoice = invoice_after(async |merchant, subscription, _| {
        let set = async |from: &str, to: &str| -> Result<()> {
            let set = "UPDATE operations SET state = $3::operation_state WHERE account_id = $1 AND state = $2::operation_state";
            let set = sqlx::query(set).bind(merchant.books.account).bind(from).bind(to);
            assert_eq!(set.execute(&merchant.books.db).await?.rows_affected(), 1);
            Ok(())
        };
        set("ready", "sending").await?;
        assert_eq!(ok(&cancel(merchant, &id(subscription)?).await?)["status"], "cancelled");
        set("sending", "ready").await
    });
    let invoice = invoice.await?;
    assert_eq!((&invoice["status"], &invoice["nextAttemptAt"]), (&json!("open"), &Value::Null), "{invoice}");
    Ok(())
}

#[tokio::test]
async fn a_card_detached_while_its_charge_waits_is_not_charged() -> Result<()> {
    let invoice = invoice_after(async |merchant, subscription, _| {
        let cards =
            format!("/v1/payment_methods?customerId={}", subscription["customerId"].as_str().unwrap_or_default());
        let card = id(&merchant.api.get(&cards).await?.body["data"][0])?;
        ok(&merchant.api.delete(&format!("/v1/payment_methods/{card}")).await?);
        Ok(())
    });
    let invoice = invoice.await?;
    // It waits for a card.
    assert_eq!((&invoice["status"], &invoice["nextAttemptAt"]), (&json!("scheduled"), &Value::Null), "{invoice}");
    Ok(())
}

/// Stops the collection by an action of the invoice.
async fn assert_not_charged_after(action: &str, status: &str) -> Result<()> {
    let invoice = invoice_after(async |merchant, _, invoice| {
        let stopped = merchant.api.send(Method::POST, &format!("/v1/invoices/{invoice}/{action}"), None).await?;
        assert_eq!(ok(&stopped)["status"], status);
        Ok(())
    });
    assert_eq!(invoice.await?["status"], status);
    Ok(())
}

#[tokio::test]
async fn a_voided_invoice_is_not_charged_when_the_provider_is_back() -> Result<()> {
    assert_not_charged_after("void", "voided").await
}

#[tokio::test]
async fn an_invoice_taken_out_of_collection_is_not_charged_when_the_provider_is_back() -> Result<()> {
    assert_not_charged_after("cancel_schedule", "open").await
}
