//! What becomes of a subscription whose invoices are collected, or cannot be.

use anyhow::Result;
use serde_json::{Value, json};

use super::{cancel, caught_up, invoices, missed, payer, plan, shown, subscribed, told, wanted};
use crate::support::{Merchant, cluster, created, eventually, id, merchant, ok, with};

/// The subscription once it is in this status.
async fn becomes(merchant: &Merchant, subscription: &str, status: &str) -> Result<Value> {
    eventually(status, async || {
        let shown = shown(merchant, subscription).await?;
        Ok((shown["status"] == status).then_some(shown))
    })
    .await
}

/// Its invoices once all of them are in this status.
async fn invoices_become(merchant: &Merchant, subscription: &str, status: &str) -> Result<Vec<Value>> {
    eventually(status, async || {
        let invoices = invoices(merchant, subscription).await?;
        Ok(invoices.iter().all(|invoice| invoice["status"] == status).then_some(invoices))
    })
    .await
}

async fn attempts(merchant: &Merchant, invoice: &Value) -> Result<Vec<Value>> {
    let page = merchant.api.get(&format!("/v1/invoices/{}/attempts", id(invoice)?)).await?;
    Ok(ok(&page)["data"].as_array().cloned().unwrap_or_default())
}

#[tokio::test]
async fn each_cycle_is_charged_to_the_card_that_was_named() -> Result<()> {
    let merchant = merchant().await?;
    let customer = payer(&merchant).await?;
    let second = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let sent = with(wanted(&customer, &plan(&merchant, "day").await?), "paymentMethodId", second.clone());
    let made = missed(&merchant, sent, 3).await?;
    caught_up(&merchant, &made).await?;
    let paid = invoices_become(&merchant, &made, "paid").await?;
    assert!(paid.len() > 3);
    for invoice in &paid {
        let payment = merchant.payment(invoice["paymentId"].as_str().unwrap_or_default()).await?;
        assert_eq!((&payment["paymentMethodId"], &payment["amount"]), (&json!(second), &json!(2900)));
        assert_eq!(payment["invoiceId"], invoice["id"]);
    }
    assert_eq!(merchant.books.charges().await?, i64::try_from(paid.len())?, "each once");
    assert_eq!(shown(&merchant, &made).await?["status"], "active");
    merchant.books.audit().await
}

#[tokio::test]
async fn without_a_card_it_is_past_due_until_there_is_one() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let made = missed(&merchant, wanted(&customer, &plan(&merchant, "day").await?), 2).await?;
    caught_up(&merchant, &made).await?;
    becomes(&merchant, &made, "past_due").await?;
    eventually("an attempt at each", async || {
        for invoice in invoices(&merchant, &made).await? {
            if attempts(&merchant, &invoice).await?.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    becomes(&merchant, &made, "active").await?;
    invoices_become(&merchant, &made, "paid").await?;
    let told = told(&merchant, &made).await?;
    assert!(told.iter().any(|kind| kind == "subscription.past_due"), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn an_attempt_in_flight_outlives_the_subscription_and_is_the_last() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_insufficient").await?);
    merchant.mock(cluster().await?, &["--latency-ms", "3000"]).await?;
    let made = id(&subscribed(&merchant, wanted(&customer, &plan(&merchant, "month").await?)).await?)?;
    let invoice = invoices(&merchant, &made).await?.remove(0);
    eventually("an attempt in flight", async || {
        Ok(attempts(&merchant, &invoice).await?.iter().any(|one| one["status"] == "processing").then_some(()))
    })
    .await?;
    let answer = cancel(&merchant, &made).await?;
    let cancelled = ok(&answer);
    assert_eq!(invoices(&merchant, &made).await?[0]["status"], "scheduled", "its outcome decides");
    let left = invoices_become(&merchant, &made, "open").await?.remove(0);
    assert!(left.get("nextAttemptAt").is_none() && left.get("collectAt").is_none(), "{left}");
    let made_attempts = attempts(&merchant, &left).await?;
    assert_eq!(made_attempts.len(), 1);
    assert_eq!(made_attempts[0]["status"], "failed");
    assert!(made_attempts[0].get("nextAttemptAt").is_none(), "it is not tried again: {made_attempts:?}");
    assert_eq!(&shown(&merchant, &made).await?, cancelled);
    assert_eq!(told(&merchant, &made).await?, ["subscription.created", "subscription.cancelled"]);
    Ok(())
}
