//! The end of a subscription: at once, once, and with the collection of what it is owed.

use anyhow::Result;
use serde_json::json;
use uuid::Uuid;

use super::{
    SUBSCRIPTIONS, cancel, caught_up, cycles_until_now, invoices, missed, payer, periods, plan, shown, subscribed,
    told, wanted,
};
use crate::support::{Merchant, created, eventually, id, merchant, ok, printed, together, uuid, with, without};

/// Writes an invoice of a subscription by hand that is to be collected tomorrow; its id. Nobody collects it meanwhile.
async fn owed(merchant: &Merchant, subscription: &str, period: &str) -> Result<String> {
    let written: Uuid = sqlx::query_scalar(
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
    Ok(printed("inv_", written))
}

/// Writes an attempt to collect an invoice by hand, which this payment is to make.
async fn attempt(merchant: &Merchant, invoice: &str, payment: &str) -> Result<()> {
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
async fn it_ends_at_once_and_stays_so() -> Result<()> {
    let merchant = merchant().await?;
    let sent = wanted(&payer(&merchant).await?, &plan(&merchant, "day").await?);
    for sent in [sent.clone(), with(sent, "startAt", "2099-01-01")] {
        let made = subscribed(&merchant, sent).await?;
        let answer = cancel(&merchant, &id(&made)?).await?;
        let cancelled = ok(&answer);
        assert!(cancelled["cancelledAt"].is_string() && cancelled.get("nextBillingAt").is_none(), "{cancelled}");
        let expected = with(without(made.clone(), "nextBillingAt"), "status", "cancelled");
        assert_eq!(without(cancelled.clone(), "cancelledAt"), expected, "nothing else changes");
        for _ in 0..2 {
            assert_eq!(ok(&cancel(&merchant, &id(&made)?).await?), cancelled, "a cancelled one is answered as it is");
        }
        assert_eq!(&shown(&merchant, &id(&made)?).await?, cancelled);
        let told = merchant.books.events(&id(&made)?).await?;
        let expected =
            [("subscription.created".to_owned(), made), ("subscription.cancelled".to_owned(), cancelled.clone())];
        assert_eq!(told, expected);
    }
    Ok(())
}

#[tokio::test]
async fn what_it_is_owed_is_no_longer_collected() -> Result<()> {
    let merchant = merchant().await?;
    let plan = plan(&merchant, "day").await?;
    let made = with(wanted(&merchant.customer().await?, &plan), "startAt", "2099-01-01");
    let (made, other) = (id(&subscribed(&merchant, made.clone()).await?)?, id(&subscribed(&merchant, made).await?)?);
    let idle = owed(&merchant, &made, "2098-01-01/2098-01-01").await?;
    let in_flight = owed(&merchant, &made, "2098-01-02/2098-01-02").await?;
    let of_another = owed(&merchant, &other, "2098-01-01/2098-01-01").await?;
    attempt(&merchant, &in_flight, &merchant.sold(2900).await?).await?;
    let before = invoice(&merchant, &in_flight).await?;
    ok(&cancel(&merchant, &made).await?);
    let left = invoice(&merchant, &idle).await?;
    assert_eq!(left["status"], "open");
    assert!(left.get("collectAt").is_none() && left.get("nextAttemptAt").is_none(), "{left}");
    assert_eq!(invoice(&merchant, &in_flight).await?, before, "what an attempt is at is left to its outcome");
    assert_eq!(invoice(&merchant, &of_another).await?["status"], "scheduled");
    Ok(())
}

#[tokio::test]
async fn voiding_the_last_that_failed_makes_it_active() -> Result<()> {
    let merchant = merchant().await?;
    let sent = with(wanted(&merchant.customer().await?, &plan(&merchant, "day").await?), "startAt", "2099-01-01");
    let made = id(&subscribed(&merchant, sent).await?)?;
    let all = [
        owed(&merchant, &made, "2098-01-01/2098-01-01").await?,
        owed(&merchant, &made, "2098-01-02/2098-01-02").await?,
        owed(&merchant, &made, "2098-01-03/2098-01-03").await?,
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
        assert_eq!(shown(&merchant, &made).await?["status"], expected);
    }
    Ok(())
}

#[tokio::test]
async fn of_many_that_cancel_at_once_one_does() -> Result<()> {
    let merchant = merchant().await?;
    let sent = wanted(&merchant.customer().await?, &plan(&merchant, "day").await?);
    for _ in 0..3 {
        let made = id(&subscribed(&merchant, sent.clone()).await?)?;
        let invoice = id(&invoices(&merchant, &made).await?[0])?;
        // Some void the invoice meanwhile, which locks the same rows.
        let answers = together(20, async |i| match i % 4 {
            0 => merchant.api.post(&format!("/v1/invoices/{invoice}/void"), json!({})).await,
            _ => cancel(&merchant, &made).await,
        })
        .await?;
        let last = shown(&merchant, &made).await?;
        for (i, answer) in answers.iter().enumerate() {
            let body = ok(answer);
            assert!(i % 4 == 0 || *body == last, "whoever cancels sees the same: {body}");
        }
        let ends = told(&merchant, &made).await?.into_iter().filter(|kind| kind == "subscription.cancelled").count();
        assert_eq!(ends, 1);
    }
    Ok(())
}

#[tokio::test]
async fn cancelled_while_it_is_billed_it_is_billed_no_more() -> Result<()> {
    let merchant = merchant().await?;
    let sent = wanted(&merchant.customer().await?, &plan(&merchant, "day").await?);
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(missed(&merchant, sent.clone(), 60).await?);
    }
    let witness = missed(&merchant, sent.clone(), 60).await?;
    for (i, made) in all.iter().enumerate() {
        // The first is cancelled before its first cycle perhaps, the others in the middle.
        eventually("some cycles to be billed", async || {
            Ok((invoices(&merchant, made).await?.len() >= 5 * i).then_some(()))
        })
        .await?;
        ok(&cancel(&merchant, made).await?);
        let billed = invoices(&merchant, made).await?;
        let expected = cycles_until_now(&merchant, made, "1 day").await?;
        assert_eq!(periods(&billed), expected[..billed.len()], "whole cycles, from the first on");
        assert!(billed.iter().all(|invoice| invoice["status"] == "open"), "none is collected any more");
        all_later_look_the_same(&merchant, made, billed.len(), &witness).await?;
    }
    Ok(())
}

/// While the scheduler goes on with another subscription, this one gets no more invoices.
async fn all_later_look_the_same(merchant: &Merchant, made: &str, count: usize, witness: &str) -> Result<()> {
    caught_up(merchant, witness).await?;
    assert_eq!(invoices(merchant, made).await?.len(), count);
    Ok(())
}

#[tokio::test]
async fn made_cancelled_and_billed_at_once_each_is_whole() -> Result<()> {
    let merchant = merchant().await?;
    let sent = wanted(&payer(&merchant).await?, &plan(&merchant, "day").await?);
    let all = together(24, async |i| {
        let made = id(created(&merchant.api.post(SUBSCRIPTIONS, sent.clone()).await?))?;
        if i % 2 == 0 {
            ok(&cancel(&merchant, &made).await?);
        }
        Ok(made)
    })
    .await?;
    for (i, made) in all.iter().enumerate() {
        assert_eq!(shown(&merchant, made).await?["status"], if i % 2 == 0 { "cancelled" } else { "active" });
        let billed = invoices(&merchant, made).await?;
        assert_eq!(periods(&billed), cycles_until_now(&merchant, made, "1 day").await?[..billed.len()]);
        assert!(!billed.is_empty(), "today was billed with the request");
    }
    Ok(())
}
