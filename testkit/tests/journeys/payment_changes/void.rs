//! Voids of payments that have not settled.

use anyhow::Result;
use serde_json::json;

use super::{AUTHORIZED, CANCELLED, CAPTURE_FAILED, CAPTURED, REFUNDED, SETTLED, VOID_FAILED};
use crate::support::{accepted, cluster, conflict, created, id, invalid, merchant, ok, payment, with};

#[tokio::test]
async fn unsettled_payments_are_voided_once() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    let sold = merchant.charge(1000).await?;
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
        let response = merchant.void(voided).await?;
        assert_eq!((&ok(&response)["status"], &response.body["settled"]), (&"cancelled".into(), &false.into()));
        assert_eq!(merchant.assert_consistent(voided, ledger, &events).await?, response.body);
        conflict(&merchant.void(voided).await?);
        conflict(&merchant.capture(voided, None).await?);
        conflict(&merchant.refund(voided, None).await?);
        conflict(&merchant.refund(voided, Some(1)).await?);
        merchant.assert_consistent(voided, ledger, &events).await?;
    }
    // Voided payments neither settle nor expire later.
    merchant.age_charges("8 days").await?;
    let later = merchant.charge(1).await?;
    merchant.age_charges("61 seconds").await?;
    merchant.wait_for_status(&later, "settled").await?;
    merchant.assert_consistent(&held, "authorize 1000 voided, void 1000", &[AUTHORIZED, CANCELLED]).await?;
    merchant.assert_consistent(&sold, "sale 1000 voided, void 1000", &[CAPTURED, CANCELLED]).await?;
    Ok(())
}

#[tokio::test]
async fn settled_or_refunded_payments_cannot_be_voided() -> Result<()> {
    let merchant = merchant().await?;
    let settled = merchant.charge(1000).await?;
    merchant.age_charges("61 seconds").await?;
    merchant.wait_for_status(&settled, "settled").await?;
    conflict(&merchant.void(&settled).await?);
    merchant.assert_consistent(&settled, "sale 1000 settled", &[CAPTURED, SETTLED]).await?;

    merchant.mock(cluster().await?, &["--latency-ms", "3000"]).await?;
    let refunded = merchant.charge(1000).await?;
    accepted(&merchant.refund(&refunded, Some(1)).await?);
    conflict(&merchant.void(&refunded).await?);
    merchant.wait_for_status(&refunded, "partially_refunded").await?;
    conflict(&merchant.void(&refunded).await?);
    merchant.assert_consistent(&refunded, "sale 1000, refund 1", &[CAPTURED, REFUNDED]).await?;

    merchant.mock(cluster().await?, &["--latency-ms", "0"]).await?;
    let declined = id(created(&merchant.api.post("/v1/payments", payment(1000, "tok_insufficient")).await?))?;
    conflict(&merchant.void(&declined).await?);
    Ok(())
}

#[tokio::test]
async fn a_refused_void_leaves_the_payment_unchanged() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let held = merchant.hold(1000).await?;
    merchant.mock(cluster, &["--reject"]).await?;
    conflict(&merchant.void(&held).await?);
    conflict(&merchant.capture(&held, None).await?);
    let current =
        merchant.assert_consistent(&held, "authorize 1000", &[AUTHORIZED, VOID_FAILED, CAPTURE_FAILED]).await?;
    assert_eq!(current["failureCode"], "provider_refused", "{current}");
    merchant.mock(cluster, &[]).await?;
    // A void accepts no field; an empty object equals no body.
    let path = format!("/v1/payments/{held}/void");
    invalid(&merchant.api.post(&path, json!({"amount": 1000})).await?, "amount");
    ok(&merchant.api.post(&path, json!({})).await?);
    merchant
        .assert_consistent(
            &held,
            "authorize 1000 voided, void 1000",
            &[AUTHORIZED, VOID_FAILED, CAPTURE_FAILED, CANCELLED],
        )
        .await?;
    Ok(())
}
