//! Authorizations that are never captured expire.

use anyhow::Result;

use super::{AUTHORIZED, CAPTURE_FAILED, CAPTURED, EXPIRED, SETTLED, VOID_FAILED};
use crate::support::{conflict, created, id, merchant, ok, payment, with};

#[tokio::test]
async fn authorizations_expire_and_captures_do_not() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    let part = |capture| merchant.api.post("/v1/payments", with(payment(1000, "tok_partial"), "capture", capture));
    let (half_held, half_sold) = (id(created(&part(false).await?))?, id(created(&part(true).await?))?);
    let captured = merchant.hold(1000).await?;
    ok(&merchant.capture(&captured, Some(1)).await?);

    merchant.age_charges("7 days 1 second").await?;
    for (expired, ledger) in [(&held, "authorize 1000 expired"), (&half_held, "authorize 500 expired")] {
        let current = merchant.wait_for_status(expired, "expired").await?;
        assert_eq!((&current["amountCaptured"], &current["settled"]), (&0.into(), &false.into()));
        conflict(&merchant.capture(expired, None).await?);
        conflict(&merchant.void(expired).await?);
        conflict(&merchant.refund(expired, None).await?);
        merchant.assert_consistent(expired, ledger, &[AUTHORIZED, EXPIRED]).await?;
    }
    merchant.wait_for_status(&captured, "settled").await?;
    merchant
        .assert_consistent(&captured, "authorize 1000 settled, capture 1", &[AUTHORIZED, CAPTURED, SETTLED])
        .await?;
    merchant.wait_for_status(&half_sold, "settled").await?;
    merchant.assert_consistent(&half_sold, "sale 500 settled", &[CAPTURED, SETTLED]).await?;
    Ok(())
}

#[tokio::test]
async fn late_captures_are_refused_by_the_provider() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    // Expired at the mock only: no inquiry has been made yet.
    sqlx::query(
        "UPDATE mock.transactions t SET occurred_at = occurred_at - interval '8 days' FROM payments p
                 WHERE p.account_id = $1 AND t.id = p.provider_ref",
    )
    .bind(merchant.books.account)
    .execute(&merchant.books.db)
    .await?;
    conflict(&merchant.capture(&held, None).await?);
    conflict(&merchant.void(&held).await?);
    // A refusal triggers an immediate inquiry. If it ends before the void arrives, the void is not sent.
    merchant.wait_for_status(&held, "expired").await?;
    let events = [AUTHORIZED, CAPTURE_FAILED, EXPIRED];
    merchant.assert_consistent_ignoring(&[VOID_FAILED], &held, "authorize 1000 expired", &events).await?;
    Ok(())
}
