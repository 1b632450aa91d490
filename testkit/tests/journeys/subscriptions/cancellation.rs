//! Cancellation is immediate and happens once. What it does to invoices is tested with the engine.

use anyhow::Result;
use serde_json::json;

use super::{
    SUBSCRIPTIONS, cancel, current, customer_with_card, cycles_until_now, event_types, invoices, periods, plan,
    subscribe, subscription_body,
};
use crate::support::{concurrently, created, id, merchant, ok, with, without};

#[tokio::test]
async fn cancellation_is_immediate_and_final() -> Result<()> {
    let merchant = merchant().await?;
    let sent = subscription_body(&customer_with_card(&merchant).await?, &plan(&merchant, "day").await?);
    for sent in [sent.clone(), with(sent, "startAt", "2099-01-01")] {
        let made = subscribe(&merchant, sent).await?;
        let response = cancel(&merchant, &id(&made)?).await?;
        let cancelled = ok(&response);
        assert!(cancelled["cancelledAt"].is_string() && cancelled.get("nextBillingAt").is_none(), "{cancelled}");
        let raised = made["version"].as_i64().map(|version| version + 1);
        let expected = with(with(without(made.clone(), "nextBillingAt"), "status", "cancelled"), "version", raised);
        assert_eq!(without(cancelled.clone(), "cancelledAt"), expected, "cancelling changes nothing else");
        for _ in 0..2 {
            assert_eq!(
                ok(&cancel(&merchant, &id(&made)?).await?),
                cancelled,
                "cancelling again returns the cancelled subscription"
            );
        }
        assert_eq!(&current(&merchant, &id(&made)?).await?, cancelled);
        let events = merchant.books.events(&id(&made)?).await?;
        let expected =
            [("subscription.created".to_owned(), made), ("subscription.cancelled".to_owned(), cancelled.clone())];
        assert_eq!(events, expected);
    }
    Ok(())
}

#[tokio::test]
async fn concurrent_cancellations_take_effect_once() -> Result<()> {
    let merchant = merchant().await?;
    let sent = subscription_body(&merchant.customer().await?, &plan(&merchant, "day").await?);
    for _ in 0..3 {
        let made = id(&subscribe(&merchant, sent.clone()).await?)?;
        let invoice = id(&invoices(&merchant, &made).await?[0])?;
        // Concurrent voids of the invoice lock the same rows.
        let responses = concurrently(20, async |i| match i % 4 {
            0 => merchant.api.post(&format!("/v1/invoices/{invoice}/void"), json!({})).await,
            _ => cancel(&merchant, &made).await,
        })
        .await?;
        let last = current(&merchant, &made).await?;
        for (i, response) in responses.iter().enumerate() {
            let body = ok(response);
            assert!(i % 4 == 0 || *body == last, "every cancellation returns the same subscription: {body}");
        }
        let cancellations =
            event_types(&merchant, &made).await?.into_iter().filter(|kind| kind == "subscription.cancelled").count();
        assert_eq!(cancellations, 1);
    }
    Ok(())
}

#[tokio::test]
async fn concurrent_creation_cancellation_and_billing_stay_consistent() -> Result<()> {
    let merchant = merchant().await?;
    let sent = subscription_body(&customer_with_card(&merchant).await?, &plan(&merchant, "day").await?);
    let all = concurrently(24, async |i| {
        let made = id(created(&merchant.api.post(SUBSCRIPTIONS, sent.clone()).await?))?;
        if i % 2 == 0 {
            ok(&cancel(&merchant, &made).await?);
        }
        Ok(made)
    })
    .await?;
    for (i, made) in all.iter().enumerate() {
        assert_eq!(current(&merchant, made).await?["status"], if i % 2 == 0 { "cancelled" } else { "active" });
        let billed = invoices(&merchant, made).await?;
        assert_eq!(periods(&billed), cycles_until_now(&merchant, made, "1 day").await?[..billed.len()]);
        assert!(!billed.is_empty(), "the request billed today's cycle");
    }
    Ok(())
}
