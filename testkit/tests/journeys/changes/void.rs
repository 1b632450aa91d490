//! Cancelling what has not settled.

use anyhow::Result;
use serde_json::json;

use super::{AUTHORIZED, CANCELLED, CAPTURE_FAILED, CAPTURED, REFUNDED, SETTLED, VOID_FAILED};
use crate::support::{accepted, cluster, conflict, created, id, invalid, merchant, ok, payment, together, with};

#[tokio::test]
async fn what_has_not_settled_is_voided_once() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    let sold = merchant.sold(1000).await?;
    let captured = merchant.hold(1000).await?;
    ok(&merchant.capture(&captured, Some(400)).await?);
    let part = |capture| merchant.api.post("/v1/payments", with(payment(1000, "tok_partial"), "capture", capture));
    let (half_held, half_sold) = (id(created(&part(false).await?))?, id(created(&part(true).await?))?);
    for (voided, ledger, events) in [
        (&held, "authorize 1000 voided, void 1000", vec![AUTHORIZED, CANCELLED]),
        (&sold, "sale 1000 voided, void 1000", vec![CAPTURED, CANCELLED]),
        (&captured, "authorize 1000 voided, capture 400, void 1000", vec![AUTHORIZED, CAPTURED, CANCELLED]),
        (&half_held, "authorize 500 voided, void 500", vec![AUTHORIZED, CANCELLED]),
        (&half_sold, "sale 500 voided, void 500", vec![CAPTURED, CANCELLED]),
    ] {
        let answer = merchant.void(voided).await?;
        assert_eq!((&ok(&answer)["status"], &answer.body["settled"]), (&"cancelled".into(), &false.into()));
        assert_eq!(merchant.all_agree(voided, ledger, &events).await?, answer.body);
        conflict(&merchant.void(voided).await?);
        conflict(&merchant.capture(voided, None).await?);
        conflict(&merchant.refund(voided, None).await?);
        conflict(&merchant.refund(voided, Some(1)).await?);
        merchant.all_agree(voided, ledger, &events).await?;
    }
    // Long after, nothing has settled and nothing expired.
    merchant.time_passes("8 days").await?;
    let later = merchant.sold(1).await?;
    merchant.time_passes("61 seconds").await?;
    merchant.becomes(&later, "settled").await?;
    merchant.all_agree(&held, "authorize 1000 voided, void 1000", &[AUTHORIZED, CANCELLED]).await?;
    merchant.all_agree(&sold, "sale 1000 voided, void 1000", &[CAPTURED, CANCELLED]).await?;
    Ok(())
}

#[tokio::test]
async fn of_many_voids_at_once_one_is_accepted() -> Result<()> {
    let merchant = merchant().await?;
    let sold = merchant.sold(1000).await?;
    let answers = together(20, async |_| merchant.void(&sold).await).await?;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    answers.iter().filter(|answer| answer.status != 200).for_each(conflict);
    merchant.all_agree(&sold, "sale 1000 voided, void 1000", &[CAPTURED, CANCELLED]).await?;
    Ok(())
}

#[tokio::test]
async fn what_has_settled_or_is_refunded_is_not_voided() -> Result<()> {
    let merchant = merchant().await?;
    let settled = merchant.sold(1000).await?;
    merchant.time_passes("61 seconds").await?;
    merchant.becomes(&settled, "settled").await?;
    conflict(&merchant.void(&settled).await?);
    merchant.all_agree(&settled, "sale 1000 settled", &[CAPTURED, SETTLED]).await?;

    merchant.mock(cluster().await?, &["--latency-ms", "3000"]).await?;
    let refunded = merchant.sold(1000).await?;
    accepted(&merchant.refund(&refunded, Some(1)).await?);
    conflict(&merchant.void(&refunded).await?);
    merchant.becomes(&refunded, "partially_refunded").await?;
    conflict(&merchant.void(&refunded).await?);
    merchant.all_agree(&refunded, "sale 1000, refund 1", &[CAPTURED, REFUNDED]).await?;

    merchant.mock(cluster().await?, &["--latency-ms", "0"]).await?;
    let declined = id(created(&merchant.api.post("/v1/payments", payment(1000, "tok_insufficient")).await?))?;
    conflict(&merchant.void(&declined).await?);
    Ok(())
}

#[tokio::test]
async fn a_void_that_the_provider_refuses_leaves_the_payment_as_it_was() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let held = merchant.hold(1000).await?;
    merchant.mock(cluster, &["--reject"]).await?;
    conflict(&merchant.void(&held).await?);
    conflict(&merchant.capture(&held, None).await?);
    let shown = merchant.all_agree(&held, "authorize 1000", &[AUTHORIZED, VOID_FAILED, CAPTURE_FAILED]).await?;
    assert_eq!(shown["failureCode"], "provider_refused", "{shown}");
    merchant.mock(cluster, &[]).await?;
    // It takes no field, and an empty object is as good as nothing.
    let path = format!("/v1/payments/{held}/void");
    invalid(&merchant.api.post(&path, json!({"amount": 1000})).await?, "amount");
    ok(&merchant.api.post(&path, json!({})).await?);
    merchant
        .all_agree(&held, "authorize 1000 voided, void 1000", &[AUTHORIZED, VOID_FAILED, CAPTURE_FAILED, CANCELLED])
        .await?;
    Ok(())
}
