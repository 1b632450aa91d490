//! The provider does as it is told and its answer is lost: the outcome is found again, or waits for a person. Nothing is
//! sent on a guess.

use anyhow::Result;
use testkit::{Answer, Cluster};

use super::{AUTHORIZED, CANCELLED, CAPTURED, REFUNDED};
use crate::faults::{for_a_person, own_cluster, scheduler_url};
use crate::support::{Merchant, accepted, cluster, conflict, created, eventually, merchant, ok};

/// The answer to a change that went well in the end: at once, or once it has been found again.
async fn found(merchant: &Merchant, payment: &str, answer: &Answer, status: &str) -> Result<()> {
    ok(answer);
    let shown = merchant.becomes(payment, status).await?;
    assert!(shown.get("pendingOperation").is_none(), "{shown}");
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_to_a_change_is_found_again() -> Result<()> {
    let each = ["A", "B"].map(|class| async move {
        let merchant = merchant().await?;
        let (held, unwanted, sold) =
            (merchant.hold(1000).await?, merchant.hold(1000).await?, merchant.sold(1000).await?);
        merchant.mock(cluster().await?, &["--class", class, "--lose-answer", "3"]).await?;
        let (captured, voided, refund) = tokio::try_join!(
            merchant.capture(&held, Some(400)),
            merchant.void(&unwanted),
            merchant.refund(&sold, Some(300))
        )?;
        found(&merchant, &held, &captured, "pending_settlement").await?;
        found(&merchant, &unwanted, &voided, "cancelled").await?;
        accepted(&refund);
        let refunded = merchant.becomes(&sold, "partially_refunded").await?;
        assert!(refunded.get("pendingOperation").is_none(), "{refunded}");
        merchant.all_agree(&held, "authorize 1000, capture 400", &[AUTHORIZED, CAPTURED]).await?;
        merchant.all_agree(&unwanted, "authorize 1000 voided, void 1000", &[AUTHORIZED, CANCELLED]).await?;
        merchant.all_agree(&sold, "sale 1000, refund 300", &[CAPTURED, REFUNDED]).await?;
        anyhow::Ok(())
    });
    futures_util::future::try_join_all(each).await.map(drop)
}

/// While a change is unknown there is no other.
async fn nothing_else_is_begun(merchant: &Merchant, payment: &str, pending: &str) -> Result<()> {
    assert_eq!(merchant.payment(payment).await?["pendingOperation"], pending);
    for answer in [
        merchant.capture(payment, None).await?,
        merchant.void(payment).await?,
        merchant.refund(payment, None).await?,
        merchant.refund(payment, Some(1)).await?,
    ] {
        conflict(&answer);
    }
    Ok(())
}

async fn waiting_for_a_person(cluster: &Cluster, count: f64) -> Result<()> {
    let scheduler = scheduler_url(cluster);
    eventually("the alarm", async || Ok((for_a_person(&scheduler).await? == count).then_some(()))).await
}

#[tokio::test]
async fn a_lost_answer_that_nobody_can_find_keeps_other_changes_out() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (held, unwanted, sold) = (merchant.hold(1000).await?, merchant.hold(1000).await?, merchant.sold(1000).await?);

    merchant.mock(&cluster, &["--class", "C", "--lose-answer", "1"]).await?;
    accepted(&merchant.refund(&sold, Some(300)).await?);
    waiting_for_a_person(&cluster, 1.0).await?;
    assert_eq!(merchant.payment(&sold).await?["status"], "pending_settlement");

    merchant.mock(&cluster, &["--lose-answer", "2"]).await?;
    let (captured, voided) = tokio::try_join!(merchant.capture(&held, Some(400)), merchant.void(&unwanted))?;
    for (answer, pending) in [(&captured, "capture"), (&voided, "void")] {
        assert_eq!((&ok(answer)["status"], &answer.body["pendingOperation"]), (&"authorized".into(), &pending.into()));
    }
    waiting_for_a_person(&cluster, 3.0).await?;

    for time in ["now", "after everything was lost but the rows"] {
        nothing_else_is_begun(&merchant, &held, "capture").await?;
        nothing_else_is_begun(&merchant, &unwanted, "void").await?;
        nothing_else_is_begun(&merchant, &sold, "refund").await?;
        let shown = merchant.payment(&sold).await?;
        assert_eq!(
            (&shown["refunds"][0]["status"], &shown["amountRefunded"]),
            (&"pending".into(), &0.into()),
            "{time}"
        );
        // What the provider says of a charge meanwhile is not believed before the change is known.
        merchant.time_passes("61 seconds").await?;
        cluster.redis.flush_all().await?;
        cluster.worker(0).restart().await?;
        assert_eq!(created(&merchant.pay(1).await?)["status"], "pending_settlement", "others are charged as ever");
    }
    waiting_for_a_person(&cluster, 3.0).await?;
    assert_eq!(merchant.books.ledger(&held).await?.matches("capture 400").count(), 1, "never sent again");
    assert_eq!(merchant.books.ledger(&unwanted).await?, "authorize 1000 voided, void 1000");
    assert_eq!(merchant.books.ledger(&sold).await?.matches("refund 300").count(), 1);
    for payment in [&held, &unwanted] {
        assert_eq!(merchant.books.events(payment).await?.len(), 1, "nothing is told that is not known");
    }
    Ok(())
}
