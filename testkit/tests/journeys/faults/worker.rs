//! The only worker is killed or paused during a charge, before or after the provider books it.

use anyhow::Result;
use testkit::{Cluster, ProcessKind};

use super::{assert_all_ready, hold_charges, in_manual_review, own_cluster, scheduler_url, wait_until_held};
use crate::support::{Books, Merchant, created, eventually, id, ok, sale};

/// After the provider's response to a charge, before the worker records it.
const RESPONDED: &str = "perform.responded";

/// A merchant of each recovery class, with charges of this latency.
async fn of_each_class(cluster: &Cluster, latency_ms: &str) -> Result<[Merchant; 3]> {
    let [a, b, c] = [Merchant::new(cluster).await?, Merchant::new(cluster).await?, Merchant::new(cluster).await?];
    for (merchant, class) in [(&a, "A"), (&b, "B"), (&c, "C")] {
        merchant.mock(cluster, &["--latency-ms", latency_ms, "--class", class]).await?;
    }
    Ok([a, b, c])
}

/// Waits until the worker holds the responses to three charges.
async fn wait_until_responded(cluster: &mut Cluster, merchants: &[Merchant; 3]) -> Result<()> {
    wait_until_held(cluster, RESPONDED).await?;
    for merchant in merchants {
        assert_eq!((merchant.books.charges().await?, merchant.books.unfinished().await?), (1, 1));
    }
    Ok(())
}

/// Makes one payment of each merchant while `fault` runs. Returns the ids of the payments.
async fn pay(merchants: &[Merchant; 3], fault: impl Future<Output = Result<()>>) -> Result<[String; 3]> {
    let [a, b, c] = merchants.each_ref().map(|merchant| merchant.pay_with_key("k", sale(1500)));
    let (a, b, c, ()) = tokio::try_join!(a, b, c, fault)?;
    Ok([id(created(&a))?, id(created(&b))?, id(created(&c))?])
}

async fn wait_for_all(
    merchants: &[Merchant; 3],
    what: &str,
    holds: impl AsyncFn(&Books) -> Result<bool>,
) -> Result<()> {
    eventually(what, async || {
        for merchant in merchants {
            if !holds(&merchant.books).await? {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
}

/// Asserts that the payment was approved and charged once.
async fn assert_charged_once(merchant: &Merchant, payment: &str) -> Result<()> {
    let payment = merchant.wait_until_finished(payment).await?;
    assert_eq!(payment["status"], "pending_settlement");
    let replay = merchant.pay_with_key("k", sale(1500)).await?;
    assert_eq!(created(&replay), &payment);
    assert_eq!(merchant.books.charges().await?, 1);
    merchant.books.audit().await
}

/// Asserts that the operation is in manual review, and that nothing is sent blindly, also after a restart.
async fn needs_manual_review(cluster: &mut Cluster, merchant: &Merchant, payment: &str, charges: i64) -> Result<()> {
    let scheduler = scheduler_url(cluster);
    eventually("a manual review", async || Ok((in_manual_review(&scheduler).await? == 1.0).then_some(()))).await?;
    cluster.redis.flush_all().await?;
    cluster.worker(0).restart().await?;
    let other = Merchant::new(cluster).await?;
    assert_eq!(created(&other.pay(100).await?)["status"], "pending_settlement", "other payments still work");
    let payment = merchant.api.get(&format!("/v1/payments/{payment}")).await?;
    assert_eq!(ok(&payment)["status"], "processing", "an unknown outcome is not a failure");
    assert_eq!(merchant.books.charges().await?, charges);
    assert_all_ready(cluster).await
}

#[tokio::test]
async fn a_worker_killed_between_charge_and_outcome_charges_once() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchants = of_each_class(&cluster, "0").await?;
    let _held = hold_charges(&mut cluster, RESPONDED).await?;
    let kill = async {
        wait_until_responded(&mut cluster, &merchants).await?;
        cluster.worker(0).kill9()?;
        cluster.worker(0).restart().await
    };
    let payments = pay(&merchants, kill).await?;
    assert_charged_once(&merchants[0], &payments[0]).await?;
    assert_charged_once(&merchants[1], &payments[1]).await?;
    needs_manual_review(&mut cluster, &merchants[2], &payments[2], 1).await
}

#[tokio::test]
async fn a_worker_killed_before_the_charge_charges_once() -> Result<()> {
    let mut cluster = own_cluster().await?;
    // The mock books after half the latency, and the worker is killed long before.
    let merchants = of_each_class(&cluster, "40000").await?;
    let kill = async {
        wait_for_all(&merchants, "three requests in flight", async |books| Ok(books.in_flight().await? == 1)).await?;
        cluster.worker(0).kill9()?;
        for merchant in &merchants {
            assert_eq!(merchant.books.charges().await?, 0, "the worker is killed before the provider books the charge");
            merchant.mock(&cluster, &["--latency-ms", "0"]).await?;
        }
        cluster.worker(0).restart().await
    };
    let payments = pay(&merchants, kill).await?;
    assert_charged_once(&merchants[0], &payments[0]).await?;
    assert_charged_once(&merchants[1], &payments[1]).await?;
    needs_manual_review(&mut cluster, &merchants[2], &payments[2], 0).await
}

#[tokio::test]
async fn a_worker_paused_past_its_lease_changes_nothing_twice() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchants = of_each_class(&cluster, "0").await?;
    let held = hold_charges(&mut cluster, RESPONDED).await?;
    let pause = async {
        wait_until_responded(&mut cluster, &merchants).await?;
        cluster.worker(0).pause()?;
        cluster.add(ProcessKind::Worker).await.map(drop)
    };
    let payments = pay(&merchants, pause).await?;
    // The other worker recovers classes A and B...
    assert_charged_once(&merchants[0], &payments[0]).await?;
    assert_charged_once(&merchants[1], &payments[1]).await?;
    let scheduler = scheduler_url(&cluster);
    eventually("a manual review", async || Ok((in_manual_review(&scheduler).await? == 1.0).then_some(()))).await?;
    // ...and the first one resumes with responses, but without its lease. After its exit all its writes are done.
    held.release()?;
    cluster.worker(0).resume()?;
    assert_eq!(cluster.worker(0).terminate().await?.code(), Some(0));
    for (merchant, payment) in merchants[..2].iter().zip(&payments) {
        assert_charged_once(merchant, payment).await?;
    }
    // In class C only a late response, if it arrived in time, can resolve the payment without a manual review.
    let late = &merchants[2];
    let payment = late.api.get(&format!("/v1/payments/{}", payments[2])).await?;
    assert!(["processing", "pending_settlement"].contains(&ok(&payment)["status"].as_str().unwrap_or_default()));
    assert_eq!(late.books.charges().await?, 1);
    Ok(())
}
