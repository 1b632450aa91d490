//! Collection of subscription invoices, and the subscription's status.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    SUBSCRIPTIONS, create_overdue, current, customer_with_card, event_types, invoices, plan, subscription_body,
    wait_until_billed,
};
use crate::support::{Merchant, cluster, created, eventually, id, invalid, merchant, ok, with};

/// Waits until the subscription has this status, and returns it.
async fn wait_for_status(merchant: &Merchant, subscription: &str, status: &str) -> Result<Value> {
    eventually(status, async || {
        let current = current(merchant, subscription).await?;
        Ok((current["status"] == status).then_some(current))
    })
    .await
}

/// Waits until all its invoices have this status, and returns them.
async fn wait_for_invoices(merchant: &Merchant, subscription: &str, status: &str) -> Result<Vec<Value>> {
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
async fn each_cycle_charges_the_named_card() -> Result<()> {
    let merchant = merchant().await?;
    let customer = customer_with_card(&merchant).await?;
    let second = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let sent = with(subscription_body(&customer, &plan(&merchant, "day").await?), "paymentMethodId", second.clone());
    let made = create_overdue(&merchant, sent, 3).await?;
    wait_until_billed(&merchant, &made).await?;
    let paid = wait_for_invoices(&merchant, &made, "paid").await?;
    assert!(paid.len() > 3);
    for invoice in &paid {
        let payment = merchant.payment(invoice["paymentId"].as_str().unwrap_or_default()).await?;
        assert_eq!((&payment["paymentMethodId"], &payment["amount"]), (&json!(second), &json!(2900)));
        assert_eq!(payment["invoiceId"], invoice["id"]);
    }
    assert_eq!(merchant.books.charges().await?, i64::try_from(paid.len())?, "each invoice is charged once");
    assert_eq!(current(&merchant, &made).await?["status"], "active");
    merchant.books.audit().await
}

#[tokio::test]
async fn subscriptions_without_a_card_are_past_due_until_one_is_saved() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let made = create_overdue(&merchant, subscription_body(&customer, &plan(&merchant, "day").await?), 2).await?;
    wait_until_billed(&merchant, &made).await?;
    wait_for_status(&merchant, &made, "past_due").await?;
    eventually("an attempt for each invoice", async || {
        for invoice in invoices(&merchant, &made).await? {
            if attempts(&merchant, &invoice).await?.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    wait_for_status(&merchant, &made, "active").await?;
    wait_for_invoices(&merchant, &made, "paid").await?;
    let events = event_types(&merchant, &made).await?;
    assert!(events.iter().any(|kind| kind == "subscription.past_due"), "{events:?}");
    Ok(())
}

#[tokio::test]
async fn the_response_has_the_outcome_of_the_first_collection() -> Result<()> {
    let merchant = merchant().await?;
    let plan = plan(&merchant, "month").await?;
    for (token, status, paid) in [("tok_ok", "active", true), ("tok_insufficient", "past_due", false)] {
        let customer = merchant.customer().await?;
        created(&merchant.save_card(&customer, token).await?);
        let description = format!("é {}", "x".repeat(498));
        let body = with(subscription_body(&customer, &plan), "description", description.clone());
        let api = merchant.api.header("idempotency-key", token)?;
        let response = api.post(SUBSCRIPTIONS, body.clone()).await?;
        let made = created(&response);
        assert_eq!((&made["status"], &made["description"]), (&json!(status), &json!(description)));
        let invoice = format!("/v1/invoices/{}", made["latestInvoiceId"].as_str().context("an invoice")?);
        let invoice = merchant.api.get(&invoice).await?;
        assert_eq!(ok(&invoice)["status"] == "paid", paid, "{}", invoice.body);
        assert_eq!(invoice.body["description"], description);
        assert_eq!(invoice.body["items"][0]["description"], description);
        let replay = api.post(SUBSCRIPTIONS, body).await?;
        assert_eq!((replay.status, &replay.bytes), (201, &response.bytes), "the outcome is stored");
        if paid {
            assert!(invoice.body.get("amountRefunded").is_none(), "{}", invoice.body);
            let payment = invoice.body["paymentId"].as_str().context("a payment")?;
            merchant.refund(payment, Some(900)).await?;
            merchant.wait_for_status(payment, "partially_refunded").await?;
            let refunded = merchant.api.get(&format!("/v1/invoices/{}", id(&invoice.body)?)).await?;
            assert_eq!(ok(&refunded)["amountRefunded"], 900);
        }
    }
    let body = with(subscription_body("cus_1", &plan), "description", "x".repeat(501));
    invalid(&merchant.api.post(SUBSCRIPTIONS, body).await?, "description");
    Ok(())
}

#[tokio::test]
async fn concurrent_requests_with_one_key_get_the_outcome_of_the_first_collection() -> Result<()> {
    let merchant = merchant().await?;
    let plan = plan(&merchant, "month").await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_insufficient").await?);
    merchant.mock(cluster().await?, &["--latency-ms", "2000"]).await?;
    let (api, body) = (merchant.api.header("idempotency-key", "once")?, subscription_body(&customer, &plan));
    let (first, second) = tokio::try_join!(api.post(SUBSCRIPTIONS, body.clone()), async {
        eventually("a subscription", async || {
            let list = merchant.api.get(SUBSCRIPTIONS).await?;
            Ok((ok(&list)["data"] != json!([])).then_some(()))
        })
        .await?;
        api.post(SUBSCRIPTIONS, body.clone()).await
    })?;
    assert_eq!(created(&first)["status"], "past_due");
    assert_eq!((second.status, &second.bytes), (201, &first.bytes));
    let replayed = [&first, &second].map(|response| response.header("idempotent-replayed"));
    assert_eq!(replayed, [None, Some("true")]);
    Ok(())
}
