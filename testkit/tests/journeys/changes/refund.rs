//! Giving money back: as often as there is something left, and never more than was taken.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{AUTHORIZED, CAPTURED, REFUND_FAILED, REFUNDED, SETTLED};
use crate::support::{Merchant, accepted, cluster, conflict, eventually, id, invalid, merchant, ok, refused, together};

/// The payment once none of its refunds is pending.
async fn done(merchant: &Merchant, payment: &str) -> Result<Value> {
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
    merchant.mock(cluster().await?, &["--latency-ms", "1500"]).await?;
    let sold = merchant.sold(1000).await?;
    let answer = merchant.refund(&sold, None).await?;
    let refund = accepted(&answer);
    assert!(id(refund)?.starts_with("ref_") && refund["createdAt"].is_string(), "{refund}");
    let expected = json!({"id": refund["id"], "object": "refund", "livemode": false, "createdAt": refund["createdAt"],
        "paymentId": sold, "amount": 1000, "currency": "USD", "status": "pending"});
    assert_eq!(refund, &expected);
    let shown = merchant.payment(&sold).await?;
    assert_eq!(shown["refunds"], json!([expected]));
    assert_eq!((&shown["status"], &shown["amountRefunded"]), (&"pending_settlement".into(), &0.into()));
    conflict(&merchant.refund(&sold, None).await?);
    conflict(&merchant.refund(&sold, Some(1)).await?);

    let refunded = merchant.becomes(&sold, "refunded").await?;
    assert_eq!((&refunded["amountRefunded"], &refunded["amountCaptured"]), (&1000.into(), &1000.into()));
    assert_eq!(refunded["refunds"][0]["status"], "succeeded");
    assert_eq!(refunded["refunds"][0]["id"], refund["id"]);
    merchant.all_agree(&sold, "sale 1000, refund 1000", &[CAPTURED, REFUNDED]).await?;
    conflict(&merchant.refund(&sold, None).await?);
    Ok(())
}

#[tokio::test]
async fn parts_are_refunded_until_nothing_is_left() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(1000).await?;
    conflict(&merchant.refund(&held, None).await?);
    conflict(&merchant.refund(&held, Some(1)).await?);
    ok(&merchant.capture(&held, Some(700)).await?);
    invalid(&merchant.refund(&held, Some(701)).await?, "amount");
    assert_eq!(accepted(&merchant.refund(&held, Some(300)).await?)["amount"], 300);
    assert_eq!(done(&merchant, &held).await?["status"], "partially_refunded");
    merchant.all_agree(&held, "authorize 1000, capture 700, refund 300", &[AUTHORIZED, CAPTURED, REFUNDED]).await?;
    invalid(&merchant.refund(&held, Some(401)).await?, "amount");
    assert_eq!(accepted(&merchant.refund(&held, None).await?)["amount"], 400, "all that is left");
    let refunded = done(&merchant, &held).await?;
    assert_eq!((&refunded["status"], &refunded["amountRefunded"]), (&"refunded".into(), &700.into()));
    let amounts: Vec<_> = refunded["refunds"].as_array().context("a list")?.iter().map(|one| &one["amount"]).collect();
    assert_eq!(amounts, [300, 400], "in the order made");
    conflict(&merchant.refund(&held, None).await?);
    let ledger = "authorize 1000, capture 700, refund 300, refund 400";
    merchant.all_agree(&held, ledger, &[AUTHORIZED, CAPTURED, REFUNDED, REFUNDED]).await?;
    Ok(())
}

#[tokio::test]
async fn of_thirty_refunds_of_60_from_100_one_is_accepted() -> Result<()> {
    let merchant = merchant().await?;
    let sold = merchant.sold(100).await?;
    let answers = together(30, async |_| merchant.refund(&sold, Some(60)).await).await?;
    assert_eq!(answers.iter().filter(|answer| answer.status == 202).count(), 1);
    answers.iter().filter(|answer| answer.status != 202).for_each(|answer| invalid(answer, "amount"));
    let refunded = done(&merchant, &sold).await?;
    assert_eq!((&refunded["status"], &refunded["amountRefunded"]), (&"partially_refunded".into(), &60.into()));
    merchant.all_agree(&sold, "sale 100, refund 60", &[CAPTURED, REFUNDED]).await?;

    // As many as there is room for, and not one more.
    let sold = merchant.sold(100).await?;
    let answers = together(30, async |_| merchant.refund(&sold, Some(10)).await).await?;
    assert_eq!(answers.iter().filter(|answer| answer.status == 202).count(), 10);
    answers.iter().filter(|answer| answer.status != 202).for_each(conflict);
    assert_eq!(done(&merchant, &sold).await?["status"], "refunded");
    assert_eq!(merchant.books.ledger(&sold).await?, format!("sale 100{}", ", refund 10".repeat(10)));
    let events = merchant.books.events(&sold).await?;
    let kinds: Vec<_> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, [vec![CAPTURED], vec![REFUNDED; 10]].concat());
    let mut told: Vec<_> = events.iter().map(|(_, payment)| payment["amountRefunded"].as_i64()).collect();
    told.sort_unstable();
    assert_eq!(told, (0..=10).map(|i| Some(i * 10)).collect::<Vec<_>>(), "each event shows one refund more");
    Ok(())
}

#[tokio::test]
async fn settled_is_told_apart_from_refunds() -> Result<()> {
    let merchant = merchant().await?;
    let (later, sooner) = (merchant.sold(1000).await?, merchant.sold(1000).await?);
    accepted(&merchant.refund(&sooner, Some(400)).await?);
    assert_eq!(done(&merchant, &sooner).await?["settled"], false);
    merchant.time_passes("61 seconds").await?;
    merchant.becomes(&later, "settled").await?;
    accepted(&merchant.refund(&later, Some(400)).await?);
    assert_eq!(done(&merchant, &later).await?["status"], "partially_refunded");
    accepted(&merchant.refund(&later, None).await?);
    let refunded = done(&merchant, &later).await?;
    assert_eq!((&refunded["status"], &refunded["settled"]), (&"refunded".into(), &true.into()), "stays settled");
    let ledger = "sale 1000 settled, refund 400, refund 600";
    merchant.all_agree(&later, ledger, &[CAPTURED, SETTLED, REFUNDED, REFUNDED]).await?;

    let settled = async || Ok((merchant.payment(&sooner).await?["settled"] == true).then_some(()));
    eventually("settlement after a refund", settled).await?;
    let shown = merchant.all_agree(&sooner, "sale 1000 settled, refund 400", &[CAPTURED, REFUNDED, SETTLED]).await?;
    assert_eq!(shown["status"], "partially_refunded");
    Ok(())
}

#[tokio::test]
async fn a_refund_that_the_provider_refuses_frees_what_it_reserved() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let sold = merchant.sold(1000).await?;
    merchant.mock(cluster, &["--reject"]).await?;
    accepted(&merchant.refund(&sold, None).await?);
    let failed = done(&merchant, &sold).await?;
    assert_eq!((&failed["status"], &failed["amountRefunded"]), (&"pending_settlement".into(), &0.into()));
    assert_eq!(failed["refunds"][0]["status"], "failed");
    merchant.all_agree(&sold, "sale 1000", &[CAPTURED, REFUND_FAILED]).await?;
    merchant.mock(cluster, &[]).await?;
    assert_eq!(accepted(&merchant.refund(&sold, None).await?)["amount"], 1000, "free again");
    assert_eq!(done(&merchant, &sold).await?["status"], "refunded");
    merchant.all_agree(&sold, "sale 1000, refund 1000", &[CAPTURED, REFUND_FAILED, REFUNDED]).await?;

    // Nor does one that failed stand in a void's way.
    let sold = merchant.sold(1000).await?;
    merchant.mock(cluster, &["--reject"]).await?;
    accepted(&merchant.refund(&sold, Some(1)).await?);
    done(&merchant, &sold).await?;
    merchant.mock(cluster, &[]).await?;
    assert_eq!(ok(&merchant.void(&sold).await?)["status"], "cancelled");
    Ok(())
}

#[tokio::test]
async fn a_part_needs_the_accounts_leave() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let sold = merchant.sold(1000).await?;
    accepted(&merchant.refund(&sold, Some(100)).await?);
    done(&merchant, &sold).await?;
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--partial-refund", "off"]).await?;
    let part = merchant.refund(&sold, Some(899)).await?;
    assert_eq!(refused(&part, 403, "capability_not_enabled")["capability"], "payments.partial_refund");
    invalid(&merchant.refund(&sold, Some(901)).await?, "amount");
    merchant.all_agree(&sold, "sale 1000, refund 100", &[CAPTURED, REFUNDED]).await?;
    accepted(&merchant.refund(&sold, Some(900)).await?);
    assert_eq!(done(&merchant, &sold).await?["status"], "refunded");
    merchant.all_agree(&sold, "sale 1000, refund 100, refund 900", &[CAPTURED, REFUNDED, REFUNDED]).await?;
    Ok(())
}
