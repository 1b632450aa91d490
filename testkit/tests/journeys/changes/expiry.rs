//! Held money that nobody took: the hold runs out.

use anyhow::Result;

use super::{AUTHORIZED, CAPTURE_FAILED, CAPTURED, EXPIRED, SETTLED, VOID_FAILED};
use crate::support::{conflict, created, id, merchant, ok, payment, with};

#[tokio::test]
async fn a_hold_runs_out_and_captured_money_never_does() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    let part = |capture| merchant.api.post("/v1/payments", with(payment(1000, "tok_partial"), "capture", capture));
    let (half_held, half_sold) = (id(created(&part(false).await?))?, id(created(&part(true).await?))?);
    let captured = merchant.hold(1000).await?;
    ok(&merchant.capture(&captured, Some(1)).await?);

    merchant.time_passes("7 days 1 second").await?;
    for (expired, ledger) in [(&held, "authorize 1000 expired"), (&half_held, "authorize 500 expired")] {
        let shown = merchant.becomes(expired, "expired").await?;
        assert_eq!((&shown["amountCaptured"], &shown["settled"]), (&0.into(), &false.into()));
        conflict(&merchant.capture(expired, None).await?);
        conflict(&merchant.void(expired).await?);
        conflict(&merchant.refund(expired, None).await?);
        merchant.all_agree(expired, ledger, &[AUTHORIZED, EXPIRED]).await?;
    }
    merchant.becomes(&captured, "settled").await?;
    merchant.all_agree(&captured, "authorize 1000 settled, capture 1", &[AUTHORIZED, CAPTURED, SETTLED]).await?;
    merchant.becomes(&half_sold, "settled").await?;
    merchant.all_agree(&half_sold, "sale 500 settled", &[CAPTURED, SETTLED]).await?;
    Ok(())
}

#[tokio::test]
async fn a_capture_that_comes_too_late_is_the_providers_to_refuse() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    // At the mock alone: nobody here has asked yet.
    sqlx::query(
        "UPDATE mock.transactions t SET occurred_at = occurred_at - interval '8 days' FROM payments p
                 WHERE p.account_id = $1 AND t.id = p.provider_ref",
    )
    .bind(merchant.books.account)
    .execute(&merchant.books.db)
    .await?;
    conflict(&merchant.capture(&held, None).await?);
    conflict(&merchant.void(&held).await?);
    // A refusal has the provider asked at once how the charge stands.
    merchant.becomes(&held, "expired").await?;
    let events = [AUTHORIZED, CAPTURE_FAILED, VOID_FAILED, EXPIRED];
    merchant.all_agree(&held, "authorize 1000 expired", &events).await?;
    Ok(())
}
