//! What falls due on the way, each at its own instant and without anybody waiting for it.

use anyhow::Result;
use serde_json::json;

use super::{AUTHORIZED, CAPTURED, EXPIRED, SETTLED, ends_after};
use crate::support::{cluster, conflict, created, eventually, id, merchant, payment, uuid, with};

#[tokio::test]
async fn captured_money_settles_a_minute_later_by_the_clock() -> Result<()> {
    let merchant = merchant().await?;
    let (sold, held) = (merchant.sold(1000).await?, merchant.hold(1000).await?);
    merchant.advance("50 seconds").await?;
    assert_eq!(merchant.payment(&sold).await?["status"], "pending_settlement");
    merchant.advance("1 minute").await?;
    assert_eq!(merchant.payment(&sold).await?["settled"], true, "as soon as the advance is answered");
    assert_eq!(merchant.payment(&held).await?["status"], "authorized");
    ends_after(&merchant, &sold, CAPTURED, "1 minute", SETTLED).await?;
    conflict(&merchant.void(&sold).await?);

    // The same once more, with a clock that is ahead already.
    let sold = merchant.sold(1000).await?;
    merchant.advance("2 minutes").await?;
    ends_after(&merchant, &sold, CAPTURED, "1 minute", SETTLED).await?;
    assert_eq!(merchant.books.ledger(&sold).await?, "sale 1000 settled");
    Ok(())
}

#[tokio::test]
async fn a_hold_runs_out_after_seven_days_by_the_clock() -> Result<()> {
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
        ends_after(&merchant, expired, AUTHORIZED, "7 days", EXPIRED).await?;
        conflict(&merchant.capture(expired, None).await?);
    }
    assert_eq!(merchant.payment(&captured).await?["status"], "settled");
    Ok(())
}

#[tokio::test]
async fn things_happen_in_the_order_of_their_instants() -> Result<()> {
    let merchant = merchant().await?;
    let mut made = Vec::new();
    for n in 0..12 {
        made.push(if n % 3 == 0 { merchant.hold(1000).await? } else { merchant.sold(1000).await? });
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
    let (held, sold): (Vec<_>, Vec<_>) = made.iter().enumerate().partition(|(n, _)| n % 3 == 0);
    let expected: Vec<_> = sold.into_iter().chain(held).map(|(_, payment)| payment).collect();
    assert_eq!(ended.iter().map(|(payment, _)| payment).collect::<Vec<_>>(), expected);
    for (n, payment) in made.iter().enumerate() {
        let (begins, after, ends) =
            if n % 3 == 0 { (AUTHORIZED, "7 days", EXPIRED) } else { (CAPTURED, "1 minute", SETTLED) };
        ends_after(&merchant, payment, begins, after, ends).await?;
    }
    Ok(())
}

/// Between two advances a clock ticks, and what falls due by it is not due by everyone's time for years.
#[tokio::test]
async fn what_falls_due_while_a_clock_ticks_is_done_as_well() -> Result<()> {
    let merchant = merchant().await?;
    merchant.advance("2 years").await?;
    let (sold, held) = (merchant.sold(1000).await?, merchant.hold(1000).await?);
    let now = merchant.now().await?;
    merchant.charge_is_asked_for(&sold, "61 seconds", &now).await?;
    merchant.charge_is_asked_for(&held, "8 days", &now).await?;
    for (payment, status) in [(&sold, "settled"), (&held, "expired")] {
        merchant.becomes(payment, status).await?;
        let history = merchant.history(payment).await?;
        assert!(history.len() == 2 && history[1].1 >= now, "{history:?}");
    }
    Ok(())
}

/// A refusal makes an inquiry due at once, by the account's time.
#[tokio::test]
async fn a_provider_that_refuses_is_asked_at_once() -> Result<()> {
    let merchant = merchant().await?;
    merchant.advance("1 year").await?;
    let held = merchant.hold(1000).await?;
    let later = merchant.later(&merchant.now().await?, "7 days").await?;
    merchant.charge_is_asked_for(&held, "8 days", &later).await?;
    conflict(&merchant.capture(&held, None).await?);
    merchant.becomes(&held, "expired").await?;
    assert_eq!(merchant.payment(&held).await?["amountCaptured"], json!(0));
    Ok(())
}

/// The hold was asked for in between, so its next turn is reckoned from our books, which are a little ahead of the provider's.
#[tokio::test]
async fn a_provider_that_needs_a_moment_more_gets_it() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let held = merchant.hold(1000).await?;
    let authorized = merchant.history(&held).await?[0].1.clone();
    merchant.mock(cluster, &["--reject"]).await?;
    conflict(&merchant.capture(&held, None).await?);
    merchant.mock(cluster, &[]).await?;
    eventually("an inquiry", async || {
        let query = "SELECT inquiry_at > now() AND inquiry_at < $2::timestamptz + interval '7 days' FROM payments WHERE id = $1";
        let asked: bool = sqlx::query_scalar(query)
            .bind(uuid(&held)?)
            .bind(&authorized)
            .fetch_one(&merchant.books.db)
            .await?;
        Ok(asked.then_some(()))
    })
    .await?;
    merchant.advance("8 days").await?;
    let history = merchant.history(&held).await?;
    let expired = history.iter().find(|(kind, _)| kind == EXPIRED).map(|(_, at)| at.clone()).unwrap_or_default();
    assert!(expired >= merchant.later(&authorized, "6 days 23 hours 59 minutes").await?, "{history:?}");
    assert!(expired <= merchant.later(&authorized, "7 days 5 minutes").await?, "{history:?}");
    Ok(())
}
