//! Work that falls due during an advance or between advances, at its due time.

use anyhow::Result;
use serde_json::json;

use super::{AUTHORIZED, CAPTURED, EXPIRED, SETTLED, assert_ended_after};
use crate::support::{cluster, conflict, created, eventually, id, merchant, payment, uuid, with};

#[tokio::test]
async fn captures_settle_a_minute_later_by_the_clock() -> Result<()> {
    let merchant = merchant().await?;
    let (captured, held) = (merchant.charge(1000).await?, merchant.hold(1000).await?);
    merchant.advance("50 seconds").await?;
    assert_eq!(merchant.payment(&captured).await?["status"], "pending_settlement");
    merchant.advance("1 minute").await?;
    assert_eq!(merchant.payment(&captured).await?["settled"], true, "settled when the advance returns");
    assert_eq!(merchant.payment(&held).await?["status"], "authorized");
    assert_ended_after(&merchant, &captured, CAPTURED, "1 minute", SETTLED).await?;
    conflict(&merchant.void(&captured).await?);

    // The same with a clock that is already ahead.
    let captured = merchant.charge(1000).await?;
    merchant.advance("2 minutes").await?;
    assert_ended_after(&merchant, &captured, CAPTURED, "1 minute", SETTLED).await?;
    assert_eq!(merchant.books.ledger(&captured).await?, "sale 1000 settled");
    Ok(())
}

#[tokio::test]
async fn holds_expire_after_seven_days_by_the_clock() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    let part = with(payment(1000, "tok_partial"), "capture", false);
    let half = id(created(&merchant.api.post("/v1/payments", part).await?))?;
    let captured = merchant.hold(1000).await?;
    merchant.capture(&captured, Some(1)).await?;
    merchant.advance("6 days 23 hours").await?;
    assert_eq!(merchant.payment(&held).await?["status"], "authorized");
    merchant.advance("2 hours").await?;
    for expired in [&held, &half] {
        assert_eq!(merchant.payment(expired).await?["status"], "expired");
        assert_ended_after(&merchant, expired, AUTHORIZED, "7 days", EXPIRED).await?;
        conflict(&merchant.capture(expired, None).await?);
    }
    assert_eq!(merchant.payment(&captured).await?["status"], "settled");
    Ok(())
}

#[tokio::test]
async fn due_work_runs_in_the_order_of_its_due_times() -> Result<()> {
    let merchant = merchant().await?;
    let mut made = Vec::new();
    for n in 0..12 {
        made.push(if n % 3 == 0 { merchant.hold(1000).await? } else { merchant.charge(1000).await? });
    }
    merchant.advance("1 year").await?;
    let ended: Vec<(String, String)> = sqlx::query_as(
        "SELECT payload::json -> 'data' -> 'object' ->> 'id', payload::json ->> 'timestamp' FROM events
         WHERE account_id = $1 AND type IN ('payment.settled', 'payment.expired') ORDER BY created_at, id",
    )
    .bind(merchant.books.account)
    .fetch_all(&merchant.books.db)
    .await?;
    assert!(ended.is_sorted_by_key(|(_, at)| at), "{ended:?}");
    let (held, captured): (Vec<_>, Vec<_>) = made.iter().enumerate().partition(|(n, _)| n % 3 == 0);
    let expected: Vec<_> = captured.into_iter().chain(held).map(|(_, payment)| payment).collect();
    assert_eq!(ended.iter().map(|(payment, _)| payment).collect::<Vec<_>>(), expected);
    for (n, payment) in made.iter().enumerate() {
        let (start, after, end) =
            if n % 3 == 0 { (AUTHORIZED, "7 days", EXPIRED) } else { (CAPTURED, "1 minute", SETTLED) };
        assert_ended_after(&merchant, payment, start, after, end).await?;
    }
    Ok(())
}

/// Work can fall due by a ticking clock that is years ahead of real time.
#[tokio::test]
async fn work_that_falls_due_between_advances_is_done() -> Result<()> {
    let merchant = merchant().await?;
    merchant.advance("2 years").await?;
    let (captured, held) = (merchant.charge(1000).await?, merchant.hold(1000).await?);
    let now = merchant.now().await?;
    merchant.schedule_inquiry(&captured, "61 seconds", &now).await?;
    merchant.schedule_inquiry(&held, "8 days", &now).await?;
    for (payment, status) in [(&captured, "settled"), (&held, "expired")] {
        merchant.wait_for_status(payment, status).await?;
        let history = merchant.event_history(payment).await?;
        assert!(history.len() == 2 && history[1].1 >= now, "{history:?}");
    }
    Ok(())
}

/// A refused capture makes the inquiry due immediately, by the account's time.
#[tokio::test]
async fn refused_captures_trigger_an_immediate_inquiry() -> Result<()> {
    let merchant = merchant().await?;
    merchant.advance("1 year").await?;
    let held = merchant.hold(1000).await?;
    let later = merchant.later(&merchant.now().await?, "7 days").await?;
    merchant.schedule_inquiry(&held, "8 days", &later).await?;
    conflict(&merchant.capture(&held, None).await?);
    merchant.wait_for_status(&held, "expired").await?;
    assert_eq!(merchant.payment(&held).await?["amountCaptured"], json!(0));
    Ok(())
}

/// After an inquiry, the next one is computed from our records, which can be slightly ahead of the provider's clock.
#[tokio::test]
async fn inquiries_tolerate_a_small_provider_delay() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let held = merchant.hold(1000).await?;
    let authorized = merchant.event_history(&held).await?[0].1.clone();
    merchant.mock(cluster, &["--reject"]).await?;
    conflict(&merchant.capture(&held, None).await?);
    merchant.mock(cluster, &[]).await?;
    eventually("an inquiry", async || {
        let query = "SELECT inquiry_at > now() AND inquiry_at < $2::timestamptz + interval '7 days' FROM payments WHERE id = $1";
        let is_scheduled: bool = sqlx::query_scalar(query)
            .bind(uuid(&held)?)
            .bind(&authorized)
            .fetch_one(&merchant.books.db)
            .await?;
        Ok(is_scheduled.then_some(()))
    })
    .await?;
    merchant.advance("8 days").await?;
    let history = merchant.event_history(&held).await?;
    let expired = history.iter().find(|(kind, _)| kind == EXPIRED).map(|(_, at)| at.clone()).unwrap_or_default();
    assert!(expired >= merchant.later(&authorized, "6 days 23 hours 59 minutes").await?, "{history:?}");
    assert!(expired <= merchant.later(&authorized, "7 days 5 minutes").await?, "{history:?}");
    Ok(())
}
