//! Refunds: several per payment, never more than the captured amount.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{AUTHORIZED, CAPTURED, REFUND_FAILED, REFUNDED, SETTLED};
use crate::support::{
    Merchant, accepted, cluster, concurrently, conflict, eventually, id, invalid, merchant, ok, refused,
};

/// Waits until no refund of the payment is pending.
async fn wait_for_refunds(merchant: &Merchant, payment: &str) -> Result<Value> {
    eventually("refunds", async || {
        let payment = merchant.payment(payment).await?;
        let refunds = payment["refunds"].as_array().context("a list")?;
        Ok((!refunds.iter().any(|refund| refund["status"] == "pending")).then_some(payment))
    })
    .await
}

#[tokio::test]
async fn a_refund_is_accepted_and_then_completes() -> Result<()> {
    let merchant = merchant().await?;
    let sold = merchant.charge(1000).await?;
    merchant.mock(cluster().await?, &["--latency-ms", "8000"]).await?;
    let response = merchant.refund(&sold, None).await?;
    let refund = accepted(&response);
    assert!(id(refund)?.starts_with("ref_") && refund["createdAt"].is_string(), "{refund}");
    let expected = json!({"id": refund["id"], "object": "refund", "livemode": false, "createdAt": refund["createdAt"],
        "version": 1, "paymentId": sold, "amount": 1000, "currency": "USD", "status": "pending"});
    assert_eq!(refund, &expected);
    let current = merchant.payment(&sold).await?;
    assert_eq!(current["refunds"], json!([expected]));
    assert_eq!((&current["status"], &current["amountRefunded"]), (&"pending_settlement".into(), &0.into()));
    conflict(&merchant.refund(&sold, None).await?);
    conflict(&merchant.refund(&sold, Some(1)).await?);

    let refunded = merchant.wait_for_status(&sold, "refunded").await?;
    assert_eq!((&refunded["amountRefunded"], &refunded["amountCaptured"]), (&1000.into(), &1000.into()));
    assert_eq!(refunded["refunds"][0]["status"], "succeeded");
    assert_eq!(refunded["refunds"][0]["id"], refund["id"]);
    merchant.assert_consistent(&sold, "sale 1000, refund 1000", &[CAPTURED, REFUNDED]).await?;
    conflict(&merchant.refund(&sold, None).await?);
    Ok(())
}

#[tokio::test]
async fn partial_refunds_are_accepted_until_nothing_is_left() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    conflict(&merchant.refund(&held, None).await?);
    conflict(&merchant.refund(&held, Some(1)).await?);
    ok(&merchant.capture(&held, Some(700)).await?);
    invalid(&merchant.refund(&held, Some(701)).await?, "amount");
    assert_eq!(accepted(&merchant.refund(&held, Some(300)).await?)["amount"], 300);
    assert_eq!(wait_for_refunds(&merchant, &held).await?["status"], "partially_refunded");
    merchant
        .assert_consistent(&held, "authorize 1000, capture 700, refund 300", &[AUTHORIZED, CAPTURED, REFUNDED])
        .await?;
    invalid(&merchant.refund(&held, Some(401)).await?, "amount");
    assert_eq!(accepted(&merchant.refund(&held, None).await?)["amount"], 400, "the default is the remaining amount");
    let refunded = wait_for_refunds(&merchant, &held).await?;
    assert_eq!((&refunded["status"], &refunded["amountRefunded"]), (&"refunded".into(), &700.into()));
    let amounts: Vec<_> = refunded["refunds"].as_array().context("a list")?.iter().map(|one| &one["amount"]).collect();
    assert_eq!(amounts, [300, 400], "in order of creation");
    conflict(&merchant.refund(&held, None).await?);
    let ledger = "authorize 1000, capture 700, refund 300, refund 400";
    merchant.assert_consistent(&held, ledger, &[AUTHORIZED, CAPTURED, REFUNDED, REFUNDED]).await?;
    Ok(())
}

#[tokio::test]
async fn concurrent_refunds_never_exceed_the_captured_amount() -> Result<()> {
    let merchant = merchant().await?;
    let sold = merchant.charge(100).await?;
    let responses = concurrently(30, async |_| merchant.refund(&sold, Some(60)).await).await?;
    assert_eq!(responses.iter().filter(|response| response.status == 202).count(), 1);
    responses.iter().filter(|response| response.status != 202).for_each(|response| invalid(response, "amount"));
    let refunded = wait_for_refunds(&merchant, &sold).await?;
    assert_eq!((&refunded["status"], &refunded["amountRefunded"]), (&"partially_refunded".into(), &60.into()));
    merchant.assert_consistent(&sold, "sale 100, refund 60", &[CAPTURED, REFUNDED]).await?;

    // Exactly as many as the captured amount allows.
    let sold = merchant.charge(100).await?;
    let responses = concurrently(30, async |_| merchant.refund(&sold, Some(10)).await).await?;
    assert_eq!(responses.iter().filter(|response| response.status == 202).count(), 10);
    responses.iter().filter(|response| response.status != 202).for_each(conflict);
    assert_eq!(wait_for_refunds(&merchant, &sold).await?["status"], "refunded");
    assert_eq!(merchant.books.ledger(&sold).await?, format!("sale 100{}", ", refund 10".repeat(10)));
    let events = merchant.books.events(&sold).await?;
    let kinds: Vec<_> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, [vec![CAPTURED], vec![REFUNDED; 10]].concat());
    let mut refunded: Vec<_> = events.iter().map(|(_, payment)| payment["amountRefunded"].as_i64()).collect();
    refunded.sort_unstable();
    assert_eq!(refunded, (0..=10).map(|i| Some(i * 10)).collect::<Vec<_>>(), "each event shows one more refund");
    Ok(())
}

#[tokio::test]
async fn settlement_and_refunds_are_tracked_separately() -> Result<()> {
    let merchant = merchant().await?;
    let (later, sooner) = (merchant.charge(1000).await?, merchant.charge(1000).await?);
    accepted(&merchant.refund(&sooner, Some(400)).await?);
    assert_eq!(wait_for_refunds(&merchant, &sooner).await?["settled"], false);
    merchant.age_charges("61 seconds").await?;
    merchant.wait_for_status(&later, "settled").await?;
    accepted(&merchant.refund(&later, Some(400)).await?);
    assert_eq!(wait_for_refunds(&merchant, &later).await?["status"], "partially_refunded");
    accepted(&merchant.refund(&later, None).await?);
    let refunded = wait_for_refunds(&merchant, &later).await?;
    assert_eq!(
        (&refunded["status"], &refunded["settled"]),
        (&"refunded".into(), &true.into()),
        "refunding keeps it settled"
    );
    let ledger = "sale 1000 settled, refund 400, refund 600";
    merchant.assert_consistent(&later, ledger, &[CAPTURED, SETTLED, REFUNDED, REFUNDED]).await?;

    let settled = async || Ok((merchant.payment(&sooner).await?["settled"] == true).then_some(()));
    eventually("settlement after a refund", settled).await?;
    let current =
        merchant.assert_consistent(&sooner, "sale 1000 settled, refund 400", &[CAPTURED, REFUNDED, SETTLED]).await?;
    assert_eq!(current["status"], "partially_refunded");
    Ok(())
}

#[tokio::test]
async fn a_refused_refund_releases_its_reserved_amount() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let sold = merchant.charge(1000).await?;
    merchant.mock(cluster, &["--reject"]).await?;
    accepted(&merchant.refund(&sold, None).await?);
    let failed = wait_for_refunds(&merchant, &sold).await?;
    assert_eq!((&failed["status"], &failed["amountRefunded"]), (&"pending_settlement".into(), &0.into()));
    assert_eq!(failed["refunds"][0]["status"], "failed");
    merchant.assert_consistent(&sold, "sale 1000", &[CAPTURED, REFUND_FAILED]).await?;
    merchant.mock(cluster, &[]).await?;
    assert_eq!(accepted(&merchant.refund(&sold, None).await?)["amount"], 1000, "the full amount is available again");
    assert_eq!(wait_for_refunds(&merchant, &sold).await?["status"], "refunded");
    merchant.assert_consistent(&sold, "sale 1000, refund 1000", &[CAPTURED, REFUND_FAILED, REFUNDED]).await?;

    // A failed refund does not block a void.
    let sold = merchant.charge(1000).await?;
    merchant.mock(cluster, &["--reject"]).await?;
    accepted(&merchant.refund(&sold, Some(1)).await?);
    wait_for_refunds(&merchant, &sold).await?;
    merchant.mock(cluster, &[]).await?;
    assert_eq!(ok(&merchant.void(&sold).await?)["status"], "cancelled");
    Ok(())
}

#[tokio::test]
async fn partial_refunds_require_the_capability() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let sold = merchant.charge(1000).await?;
    accepted(&merchant.refund(&sold, Some(100)).await?);
    wait_for_refunds(&merchant, &sold).await?;
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--partial-refund", "off"]).await?;
    let part = merchant.refund(&sold, Some(899)).await?;
    assert_eq!(refused(&part, 403, "capability_not_enabled")["capability"], "payments.partial_refund");
    invalid(&merchant.refund(&sold, Some(901)).await?, "amount");
    merchant.assert_consistent(&sold, "sale 1000, refund 100", &[CAPTURED, REFUNDED]).await?;
    accepted(&merchant.refund(&sold, Some(900)).await?);
    assert_eq!(wait_for_refunds(&merchant, &sold).await?["status"], "refunded");
    merchant.assert_consistent(&sold, "sale 1000, refund 100, refund 900", &[CAPTURED, REFUNDED, REFUNDED]).await?;
    Ok(())
}
