//! Captures: once per authorization, and at most the authorized amount.

use anyhow::Result;
use serde_json::json;

use super::{AUTHORIZED, CAPTURED, SETTLED, first_payment};
use crate::keys::limited;
use crate::support::{
    cluster, concurrently, conflict, created, id, invalid, merchant, ok, payment, refused, sale, with,
};

#[tokio::test]
async fn an_authorization_is_captured_once() -> Result<()> {
    let merchant = merchant().await?;
    for (requested, expected) in [(None, 1000), (Some(1000), 1000), (Some(400), 400), (Some(1), 1)] {
        let held = merchant.hold(1000).await?;
        let response = merchant.capture(&held, requested).await?;
        let captured = ok(&response);
        assert_eq!((&captured["status"], &captured["settled"]), (&"pending_settlement".into(), &false.into()));
        assert_eq!((&captured["amount"], &captured["amountCaptured"]), (&1000.into(), &expected.into()));
        assert!(captured.get("pendingOperation").is_none());
        let ledger = format!("authorize 1000, capture {expected}");
        let current = merchant.assert_consistent(&held, &ledger, &[AUTHORIZED, CAPTURED]).await?;
        assert_eq!(&current, captured);
        for again in [None, Some(1), Some(1000 - expected).filter(|left| *left > 0), Some(1000)] {
            conflict(&merchant.capture(&held, again).await?);
        }
        merchant.assert_consistent(&held, &ledger, &[AUTHORIZED, CAPTURED]).await?;
    }
    merchant.age_charges("61 seconds").await?;
    for row in ok(&merchant.api.get("/v1/payments").await?)["data"].as_array().into_iter().flatten() {
        let settled = merchant.wait_for_status(&id(row)?, "settled").await?;
        assert_eq!(settled["amountCaptured"], row["amountCaptured"]);
        let ledger = format!("authorize 1000 settled, capture {}", row["amountCaptured"]);
        merchant.assert_consistent(&id(row)?, &ledger, &[AUTHORIZED, CAPTURED, SETTLED]).await?;
        conflict(&merchant.capture(&id(row)?, None).await?);
    }
    Ok(())
}

#[tokio::test]
async fn concurrent_captures_succeed_once() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    let responses = concurrently(20, async |i| merchant.capture(&held, Some(500 + i64::try_from(i)?)).await).await?;
    let (succeeded, rejected): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 200);
    assert_eq!(succeeded.len(), 1);
    rejected.iter().for_each(|response| conflict(response));
    let ledger = format!("authorize 1000, capture {}", succeeded[0].body["amountCaptured"]);
    merchant.assert_consistent(&held, &ledger, &[AUTHORIZED, CAPTURED]).await?;
    Ok(())
}

#[tokio::test]
async fn partial_approvals_are_captured_up_to_the_approved_amount() -> Result<()> {
    let merchant = merchant().await?;
    let hold = async || {
        id(created(&merchant.api.post("/v1/payments", with(payment(1001, "tok_partial"), "capture", false)).await?))
    };
    for (requested, expected) in [(None, 500), (Some(200), 200)] {
        let held = hold().await?;
        invalid(&merchant.capture(&held, Some(501)).await?, "amount");
        invalid(&merchant.capture(&held, Some(1001)).await?, "amount");
        let response = merchant.capture(&held, requested).await?;
        let captured = ok(&response);
        assert_eq!(
            (&captured["status"], &captured["amountCaptured"]),
            (&"pending_settlement".into(), &expected.into())
        );
        assert_eq!((&captured["amount"], &captured["amountRequested"]), (&500.into(), &1001.into()));
        merchant
            .assert_consistent(&held, &format!("authorize 500, capture {expected}"), &[AUTHORIZED, CAPTURED])
            .await?;
    }
    let sold = id(created(&merchant.api.post("/v1/payments", payment(1001, "tok_partial")).await?))?;
    conflict(&merchant.capture(&sold, None).await?);
    merchant.assert_consistent(&sold, "sale 500", &[CAPTURED]).await?;
    Ok(())
}

#[tokio::test]
async fn only_authorized_payments_can_be_captured() -> Result<()> {
    let merchant = merchant().await?;
    let sold = merchant.charge(1000).await?;
    conflict(&merchant.capture(&sold, None).await?);
    conflict(&merchant.capture(&sold, Some(1)).await?);
    merchant.assert_consistent(&sold, "sale 1000", &[CAPTURED]).await?;
    for capture in [true, false] {
        let body = with(payment(1000, "tok_insufficient"), "capture", capture);
        let declined = id(created(&merchant.api.post("/v1/payments", body).await?))?;
        conflict(&merchant.capture(&declined, None).await?);
        merchant.assert_consistent(&declined, "", &["payment.declined"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn processing_payments_cannot_be_changed() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--latency-ms", "9000"]).await?;
    let changing = async {
        let processing = first_payment(&merchant).await?;
        conflict(&merchant.capture(&processing, None).await?);
        conflict(&merchant.void(&processing).await?);
        conflict(&merchant.refund(&processing, None).await?);
        assert_eq!(merchant.payment(&processing).await?["status"], "processing");
        Ok(())
    };
    let (held, ()) = tokio::try_join!(merchant.hold(1000), changing)?;
    merchant.assert_consistent(&held, "authorize 1000", &[AUTHORIZED]).await?;
    Ok(())
}

#[tokio::test]
async fn partial_captures_require_the_capability() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let account = &merchant.account.id;
    cluster.ctl(&["accounts", "set", account, "--partial-capture", "off"]).await?;
    let held = merchant.hold(1000).await?;
    let part = merchant.capture(&held, Some(999)).await?;
    assert_eq!(refused(&part, 403, "capability_not_enabled")["capability"], "payments.partial_capture");
    invalid(&merchant.capture(&held, Some(1001)).await?, "amount");
    merchant.assert_consistent(&held, "authorize 1000", &[AUTHORIZED]).await?;
    ok(&merchant.capture(&held, Some(1000)).await?);
    merchant.assert_consistent(&held, "authorize 1000, capture 1000", &[AUTHORIZED, CAPTURED]).await?;

    cluster.ctl(&["accounts", "set", account, "--partial-capture", "on"]).await?;
    merchant.mock(cluster, &["--without", "payments.partial_capture"]).await?;
    let held = merchant.hold(1000).await?;
    let part = merchant.capture(&held, Some(999)).await?;
    assert_eq!(refused(&part, 501, "capability_not_supported")["capability"], "payments.partial_capture");
    ok(&merchant.capture(&held, None).await?);
    Ok(())
}

#[tokio::test]
async fn each_change_requires_its_entitlement() -> Result<()> {
    let merchant = merchant().await?;
    let (held, sold) = (merchant.hold(1000).await?, merchant.charge(1000).await?);
    let limited_key =
        limited(&merchant, "secret", &["payments.create", "payments.authorize", "payments.retrieve"]).await?;
    for (payment, change) in [(&held, "capture"), (&held, "void"), (&sold, "refund")] {
        // The entitlement is checked before the body is read and the payment is looked up.
        for (payment, body) in [(payment.as_str(), sale(1)), (payment, sale(0)), ("pay_1", sale(1))] {
            let response = limited_key.post(&format!("/v1/payments/{payment}/{change}"), body).await?;
            let capability = format!("payments.{change}");
            assert_eq!(refused(&response, 403, "capability_not_enabled")["capability"], capability);
        }
    }
    let full_only_key = limited(&merchant, "secret", &["payments.capture", "payments.refund"]).await?;
    for (payment, change) in [(&held, "capture"), (&sold, "refund")] {
        let path = format!("/v1/payments/{payment}/{change}");
        let part = full_only_key.post(&path, json!({"amount": 999})).await?;
        let capability = format!("payments.partial_{change}");
        assert_eq!(refused(&part, 403, "capability_not_enabled")["capability"], capability);
        assert!(
            full_only_key.post(&path, json!({"amount": 1000})).await?.status < 300,
            "the full amount is not a partial change"
        );
    }
    Ok(())
}
