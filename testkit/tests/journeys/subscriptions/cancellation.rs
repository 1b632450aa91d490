//! Cancellation is immediate, happens once, and stops the collection of unpaid invoices.

use anyhow::Result;
use serde_json::json;
use uuid::Uuid;

use super::{
    SUBSCRIPTIONS, cancel, create_overdue, current, customer_with_card, cycles_until_now, event_types, invoices,
    periods, plan, subscribe, subscription_body, wait_until_billed,
};
use crate::support::{Merchant, api_id, concurrently, created, eventually, id, merchant, ok, uuid, with, without};

/// Inserts an invoice of a subscription, due for collection tomorrow, so that no test run collects it. Returns its id.
async fn insert_invoice(merchant: &Merchant, subscription: &str, period: &str) -> Result<String> {
    let inserted: Uuid = sqlx::query_scalar(
        "INSERT INTO invoices (id, account_id, customer_id, status, number, currency, amount, payment_terms, issued_at,
                due_at, collect_at, next_attempt_at, subscription_id, billing_period, page_token, created_at)
         SELECT new_ulid(clock_timestamp()), account_id, customer_id, 'scheduled',
                900000 + (SELECT count(*) FROM invoices i WHERE i.account_id = s.account_id), 'USD', 2900,
                'due_on_receipt', now(), now(), now() + interval '1 day', now() + interval '1 day', id, $2,
                gen_random_uuid()::text, clock_timestamp()
         FROM subscriptions s WHERE id = $1 RETURNING id",
    )
    .bind(uuid(subscription)?)
    .bind(period)
    .fetch_one(&merchant.books.db)
    .await?;
    Ok(api_id("inv_", inserted))
}

/// Inserts a collection attempt in progress with this payment.
async fn insert_attempt(merchant: &Merchant, invoice: &str, payment: &str) -> Result<()> {
    sqlx::query(
        "WITH attempt AS (
             INSERT INTO collection_attempts (id, account_id, invoice_id, number, status, amount, payment_id, attempted_at)
             VALUES (gen_random_uuid(), $1, $2, 1, 'processing', 2900, $3, now()))
         UPDATE invoices SET next_attempt_at = NULL, series_started_at = now() WHERE account_id = $1 AND id = $2",
    )
    .bind(merchant.books.account)
    .bind(uuid(invoice)?)
    .bind(uuid(payment)?)
    .execute(&merchant.books.db)
    .await?;
    Ok(())
}

async fn invoice(merchant: &Merchant, invoice: &str) -> Result<serde_json::Value> {
    Ok(ok(&merchant.api.get(&format!("/v1/invoices/{invoice}")).await?).clone())
}

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
async fn cancellation_stops_collection_of_unpaid_invoices() -> Result<()> {
    let merchant = merchant().await?;
    let plan = plan(&merchant, "day").await?;
    let made = with(subscription_body(&merchant.customer().await?, &plan), "startAt", "2099-01-01");
    let (made, other) = (id(&subscribe(&merchant, made.clone()).await?)?, id(&subscribe(&merchant, made).await?)?);
    let idle = insert_invoice(&merchant, &made, "2098-01-01/2098-01-01").await?;
    let in_flight = insert_invoice(&merchant, &made, "2098-01-02/2098-01-02").await?;
    let of_other_subscription = insert_invoice(&merchant, &other, "2098-01-01/2098-01-01").await?;
    insert_attempt(&merchant, &in_flight, &merchant.charge(2900).await?).await?;
    let before = invoice(&merchant, &in_flight).await?;
    ok(&cancel(&merchant, &made).await?);
    let left = invoice(&merchant, &idle).await?;
    assert_eq!(left["status"], "open");
    assert!(left.get("collectAt").is_none() && left.get("nextAttemptAt").is_none(), "{left}");
    assert_eq!(invoice(&merchant, &in_flight).await?, before, "an attempt in progress decides by its outcome");
    assert_eq!(invoice(&merchant, &of_other_subscription).await?["status"], "scheduled");
    Ok(())
}

#[tokio::test]
async fn voiding_the_last_failed_invoice_reactivates_the_subscription() -> Result<()> {
    let merchant = merchant().await?;
    let sent =
        with(subscription_body(&merchant.customer().await?, &plan(&merchant, "day").await?), "startAt", "2099-01-01");
    let made = id(&subscribe(&merchant, sent).await?)?;
    let all = [
        insert_invoice(&merchant, &made, "2098-01-01/2098-01-01").await?,
        insert_invoice(&merchant, &made, "2098-01-02/2098-01-02").await?,
        insert_invoice(&merchant, &made, "2098-01-03/2098-01-03").await?,
    ];
    let past_due =
        "UPDATE subscriptions SET status = 'past_due', current_period_start = now(), current_period_end = now()
                    WHERE id = $1";
    sqlx::query(past_due).bind(uuid(&made)?).execute(&merchant.books.db).await?;
    let fail = "INSERT INTO collection_attempts (id, account_id, invoice_id, number, status, amount, decline_code, decline_type,
                    attempted_at)
                VALUES (gen_random_uuid(), $1, $2, 1, 'failed', 2900, 'no_payment_method', 'hard', now())";
    for failed in &all[..2] {
        sqlx::query(fail).bind(merchant.books.account).bind(uuid(failed)?).execute(&merchant.books.db).await?;
    }
    for (voided, expected) in [(&all[2], "past_due"), (&all[0], "past_due"), (&all[1], "active"), (&all[1], "active")] {
        ok(&merchant.api.post(&format!("/v1/invoices/{voided}/void"), json!({})).await?);
        assert_eq!(current(&merchant, &made).await?["status"], expected);
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
async fn cancellation_during_billing_stops_further_cycles() -> Result<()> {
    let merchant = merchant().await?;
    let sent = subscription_body(&merchant.customer().await?, &plan(&merchant, "day").await?);
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(create_overdue(&merchant, sent.clone(), 60).await?);
    }
    let other = create_overdue(&merchant, sent.clone(), 60).await?;
    for (i, made) in all.iter().enumerate() {
        // The first may be cancelled before its first cycle, the others during billing.
        eventually("some cycles to be billed", async || {
            Ok((invoices(&merchant, made).await?.len() >= 5 * i).then_some(()))
        })
        .await?;
        ok(&cancel(&merchant, made).await?);
        let billed = invoices(&merchant, made).await?;
        let expected = cycles_until_now(&merchant, made, "1 day").await?;
        assert_eq!(periods(&billed), expected[..billed.len()], "complete cycles, from the first on");
        assert!(billed.iter().all(|invoice| invoice["status"] == "open"), "no invoice is collected any more");
        assert_no_more_invoices(&merchant, made, billed.len(), &other).await?;
    }
    Ok(())
}

/// Asserts that this subscription gets no more invoices until the scheduler has billed another one completely.
async fn assert_no_more_invoices(merchant: &Merchant, made: &str, count: usize, other: &str) -> Result<()> {
    wait_until_billed(merchant, other).await?;
    assert_eq!(invoices(merchant, made).await?.len(), count);
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
