//! The provider executes a change and its response is lost: the outcome is recovered, or waits for manual review. A
//! change with an unknown outcome is never sent again blindly.

use anyhow::Result;
use testkit::{Cluster, Response};

use super::{AUTHORIZED, CANCELLED, CAPTURED, REFUNDED};
use crate::faults::{in_manual_review, own_cluster, scheduler_url};
use crate::support::{Merchant, accepted, cluster, conflict, created, eventually, id, merchant, ok};

/// Asserts that a change succeeded, at once or after its outcome was recovered.
async fn assert_recovered(merchant: &Merchant, payment: &str, response: &Response, status: &str) -> Result<()> {
    ok(response);
    let current = merchant.wait_for_status(payment, status).await?;
    assert!(current.get("pendingOperation").is_none(), "{current}");
    Ok(())
}

#[tokio::test]
async fn a_lost_response_to_a_change_is_recovered() -> Result<()> {
    let each = ["A", "B"].map(|class| async move {
        let merchant = merchant().await?;
        let (held, to_void, sold) =
            (merchant.hold(1000).await?, merchant.hold(1000).await?, merchant.charge(1000).await?);
        merchant.mock(cluster().await?, &["--class", class, "--lose-responses", "3"]).await?;
        let (captured, voided, refund) = tokio::try_join!(
            merchant.capture(&held, Some(400)),
            merchant.void(&to_void),
            merchant.refund(&sold, Some(300))
        )?;
        assert_recovered(&merchant, &held, &captured, "pending_settlement").await?;
        assert_recovered(&merchant, &to_void, &voided, "cancelled").await?;
        accepted(&refund);
        let refunded = merchant.wait_for_status(&sold, "partially_refunded").await?;
        assert!(refunded.get("pendingOperation").is_none(), "{refunded}");
        merchant.assert_consistent(&held, "authorize 1000, capture 400", &[AUTHORIZED, CAPTURED]).await?;
        merchant.assert_consistent(&to_void, "authorize 1000 voided, void 1000", &[AUTHORIZED, CANCELLED]).await?;
        merchant.assert_consistent(&sold, "sale 1000, refund 300", &[CAPTURED, REFUNDED]).await?;
        anyhow::Ok(())
    });
    futures_util::future::try_join_all(each).await.map(drop)
}

/// While the outcome of a change is unknown, no other change is accepted.
async fn assert_blocked(merchant: &Merchant, payment: &str, pending: &str) -> Result<()> {
    assert_eq!(merchant.payment(payment).await?["pendingOperation"], pending);
    for response in [
        merchant.capture(payment, None).await?,
        merchant.void(payment).await?,
        merchant.refund(payment, None).await?,
        merchant.refund(payment, Some(1)).await?,
    ] {
        conflict(&response);
    }
    Ok(())
}

async fn wait_for_manual_reviews(cluster: &Cluster, count: f64) -> Result<()> {
    let scheduler = scheduler_url(cluster);
    eventually(
        "the metric of manual reviews",
        async || Ok((in_manual_review(&scheduler).await? == count).then_some(())),
    )
    .await
}

#[tokio::test]
async fn an_unrecoverable_lost_response_blocks_other_changes() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (held, to_void, sold) = (merchant.hold(1000).await?, merchant.hold(1000).await?, merchant.charge(1000).await?);

    merchant.mock(&cluster, &["--class", "C", "--lose-responses", "1"]).await?;
    accepted(&merchant.refund(&sold, Some(300)).await?);
    wait_for_manual_reviews(&cluster, 1.0).await?;
    assert_eq!(merchant.payment(&sold).await?["status"], "pending_settlement");

    merchant.mock(&cluster, &["--lose-responses", "3"]).await?;
    let (captured, voided, charged) =
        tokio::try_join!(merchant.capture(&held, Some(400)), merchant.void(&to_void), merchant.pay(700))?;
    assert_eq!(created(&charged)["status"], "processing", "an unknown outcome is not a failure");
    let charged = id(&charged.body)?;
    for (response, pending) in [(&captured, "capture"), (&voided, "void")] {
        assert_eq!(
            (&ok(response)["status"], &response.body["pendingOperation"]),
            (&"authorized".into(), &pending.into())
        );
    }
    wait_for_manual_reviews(&cluster, 4.0).await?;

    for time in ["before", "after Redis and the worker lost their state"] {
        assert_blocked(&merchant, &held, "capture").await?;
        assert_blocked(&merchant, &to_void, "void").await?;
        assert_blocked(&merchant, &sold, "refund").await?;
        let current = merchant.payment(&sold).await?;
        assert_eq!(
            (&current["refunds"][0]["status"], &current["amountRefunded"]),
            (&"pending".into(), &0.into()),
            "{time}"
        );
        // An inquiry's result is not applied while the outcome of a change is unknown.
        merchant.age_charges("61 seconds").await?;
        cluster.redis.flush_all().await?;
        cluster.worker(0).restart().await?;
        assert_eq!(created(&merchant.pay(1).await?)["status"], "pending_settlement", "other payments still work");
    }
    wait_for_manual_reviews(&cluster, 4.0).await?;
    assert_eq!(merchant.payment(&charged).await?["status"], "processing");
    let charges_of_700 = "SELECT count(*) FROM mock.transactions t JOIN provider_accounts p ON p.id = t.account
                          WHERE p.account_id = $1 AND t.kind = 'sale' AND t.amount = 700";
    assert_eq!(merchant.books.count(charges_of_700).await?, 1, "the charge must not be sent again");
    assert_eq!(
        merchant.books.ledger(&held).await?.matches("capture 400").count(),
        1,
        "the capture must not be sent again"
    );
    assert_eq!(merchant.books.ledger(&to_void).await?, "authorize 1000 voided, void 1000");
    assert_eq!(merchant.books.ledger(&sold).await?.matches("refund 300").count(), 1);
    for payment in [&held, &to_void] {
        assert_eq!(merchant.books.events(payment).await?.len(), 1, "there must be no event about an unknown outcome");
    }
    Ok(())
}
