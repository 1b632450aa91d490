//! Taking held money: once, and no more than was authorized.

use anyhow::Result;
use serde_json::json;

use super::{AUTHORIZED, CAPTURED, SETTLED, under_way};
use crate::keys::limited;
use crate::support::{cluster, conflict, created, id, invalid, merchant, ok, payment, refused, sale, together, with};

#[tokio::test]
async fn a_hold_is_captured_once() -> Result<()> {
    let merchant = merchant().await?;
    for (asked, taken) in [(None, 1000), (Some(1000), 1000), (Some(400), 400), (Some(1), 1)] {
        let held = merchant.hold(1000).await?;
        let answer = merchant.capture(&held, asked).await?;
        let captured = ok(&answer);
        assert_eq!((&captured["status"], &captured["settled"]), (&"pending_settlement".into(), &false.into()));
        assert_eq!((&captured["amount"], &captured["amountCaptured"]), (&1000.into(), &taken.into()));
        assert!(captured.get("pendingOperation").is_none());
        let ledger = format!("authorize 1000, capture {taken}");
        let shown = merchant.all_agree(&held, &ledger, &[AUTHORIZED, CAPTURED]).await?;
        assert_eq!(&shown, captured);
        for again in [None, Some(1), Some(1000 - taken).filter(|left| *left > 0), Some(1000)] {
            conflict(&merchant.capture(&held, again).await?);
        }
        merchant.all_agree(&held, &ledger, &[AUTHORIZED, CAPTURED]).await?;
    }
    merchant.time_passes("61 seconds").await?;
    for row in ok(&merchant.api.get("/v1/payments").await?)["data"].as_array().into_iter().flatten() {
        let settled = merchant.becomes(&id(row)?, "settled").await?;
        assert_eq!(settled["amountCaptured"], row["amountCaptured"]);
        let ledger = format!("authorize 1000 settled, capture {}", row["amountCaptured"]);
        merchant.all_agree(&id(row)?, &ledger, &[AUTHORIZED, CAPTURED, SETTLED]).await?;
        conflict(&merchant.capture(&id(row)?, None).await?);
    }
    Ok(())
}

#[tokio::test]
async fn of_many_captures_at_once_one_is_accepted() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    let answers = together(20, async |i| merchant.capture(&held, Some(500 + i64::try_from(i)?)).await).await?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(won.len(), 1);
    lost.iter().for_each(|answer| conflict(answer));
    let ledger = format!("authorize 1000, capture {}", won[0].body["amountCaptured"]);
    merchant.all_agree(&held, &ledger, &[AUTHORIZED, CAPTURED]).await?;
    Ok(())
}

#[tokio::test]
async fn what_was_approved_in_part_is_captured_in_part() -> Result<()> {
    let merchant = merchant().await?;
    let hold = async || {
        id(created(&merchant.api.post("/v1/payments", with(payment(1001, "tok_partial"), "capture", false)).await?))
    };
    for (asked, taken) in [(None, 500), (Some(200), 200)] {
        let held = hold().await?;
        invalid(&merchant.capture(&held, Some(501)).await?, "amount");
        invalid(&merchant.capture(&held, Some(1001)).await?, "amount");
        let answer = merchant.capture(&held, asked).await?;
        let captured = ok(&answer);
        assert_eq!((&captured["status"], &captured["amountCaptured"]), (&"pending_settlement".into(), &taken.into()));
        assert_eq!((&captured["amount"], &captured["amountRequested"]), (&500.into(), &1001.into()));
        merchant.all_agree(&held, &format!("authorize 500, capture {taken}"), &[AUTHORIZED, CAPTURED]).await?;
    }
    let sold = id(created(&merchant.api.post("/v1/payments", payment(1001, "tok_partial")).await?))?;
    conflict(&merchant.capture(&sold, None).await?);
    merchant.all_agree(&sold, "sale 500", &[CAPTURED]).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_not_held_is_not_captured() -> Result<()> {
    let merchant = merchant().await?;
    let sold = merchant.sold(1000).await?;
    conflict(&merchant.capture(&sold, None).await?);
    conflict(&merchant.capture(&sold, Some(1)).await?);
    merchant.all_agree(&sold, "sale 1000", &[CAPTURED]).await?;
    for capture in [true, false] {
        let body = with(payment(1000, "tok_insufficient"), "capture", capture);
        let declined = id(created(&merchant.api.post("/v1/payments", body).await?))?;
        conflict(&merchant.capture(&declined, None).await?);
        merchant.all_agree(&declined, "", &["payment.declined"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_processing_is_not_changed() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--latency-ms", "4000"]).await?;
    let changing = async {
        let processing = under_way(&merchant).await?;
        conflict(&merchant.capture(&processing, None).await?);
        conflict(&merchant.void(&processing).await?);
        conflict(&merchant.refund(&processing, None).await?);
        assert_eq!(merchant.payment(&processing).await?["status"], "processing");
        Ok(())
    };
    let (held, ()) = tokio::try_join!(merchant.hold(1000), changing)?;
    merchant.all_agree(&held, "authorize 1000", &[AUTHORIZED]).await?;
    Ok(())
}

#[tokio::test]
async fn a_part_needs_the_accounts_leave() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let account = &merchant.account.id;
    cluster.ctl(&["accounts", "set", account, "--partial-capture", "off"]).await?;
    let held = merchant.hold(1000).await?;
    let part = merchant.capture(&held, Some(999)).await?;
    assert_eq!(refused(&part, 403, "capability_not_enabled")["capability"], "payments.partial_capture");
    invalid(&merchant.capture(&held, Some(1001)).await?, "amount");
    merchant.all_agree(&held, "authorize 1000", &[AUTHORIZED]).await?;
    ok(&merchant.capture(&held, Some(1000)).await?);
    merchant.all_agree(&held, "authorize 1000, capture 1000", &[AUTHORIZED, CAPTURED]).await?;

    cluster.ctl(&["accounts", "set", account, "--partial-capture", "on"]).await?;
    merchant.mock(cluster, &["--without", "payments.partial_capture"]).await?;
    let held = merchant.hold(1000).await?;
    let part = merchant.capture(&held, Some(999)).await?;
    assert_eq!(refused(&part, 501, "capability_not_supported")["capability"], "payments.partial_capture");
    ok(&merchant.capture(&held, None).await?);
    Ok(())
}

#[tokio::test]
async fn each_change_is_an_entitlement() -> Result<()> {
    let merchant = merchant().await?;
    let (held, sold) = (merchant.hold(1000).await?, merchant.sold(1000).await?);
    let some = limited(&merchant, "secret", &["payments.create", "payments.authorize", "payments.retrieve"]).await?;
    for (payment, change) in [(&held, "capture"), (&held, "void"), (&sold, "refund")] {
        // Before the body is read, and before the payment is looked for.
        for (payment, body) in [(payment.as_str(), sale(1)), (payment, sale(0)), ("pay_1", sale(1))] {
            let answer = some.post(&format!("/v1/payments/{payment}/{change}"), body).await?;
            let capability = format!("payments.{change}");
            assert_eq!(refused(&answer, 403, "capability_not_enabled")["capability"], capability);
        }
    }
    let whole = limited(&merchant, "secret", &["payments.capture", "payments.refund"]).await?;
    for (payment, change) in [(&held, "capture"), (&sold, "refund")] {
        let path = format!("/v1/payments/{payment}/{change}");
        let part = whole.post(&path, json!({"amount": 999})).await?;
        let capability = format!("payments.partial_{change}");
        assert_eq!(refused(&part, 403, "capability_not_enabled")["capability"], capability);
        assert!(whole.post(&path, json!({"amount": 1000})).await?.status < 300, "a full amount is no part");
    }
    Ok(())
}
