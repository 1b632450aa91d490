//! The only worker is taken away in the middle of a charge, on either side of the moment at which the provider books it.

use anyhow::Result;
use testkit::{Cluster, Kind};

use super::{all_are_ready, for_a_person, own_cluster, scheduler_url};
use crate::support::{Books, Merchant, created, eventually, id, ok, sale};

/// A merchant of each recovery class, whose charges take long enough to be caught in the middle.
async fn of_each_class(cluster: &Cluster) -> Result<[Merchant; 3]> {
    let [a, b, c] = [Merchant::new(cluster).await?, Merchant::new(cluster).await?, Merchant::new(cluster).await?];
    for (merchant, class) in [(&a, "A"), (&b, "B"), (&c, "C")] {
        merchant.mock(cluster, &["--latency-ms", "4000", "--class", class]).await?;
    }
    Ok([a, b, c])
}

/// One payment of each merchant, and what goes wrong meanwhile. The ids of the payments.
async fn pay(merchants: &[Merchant; 3], meanwhile: impl Future<Output = Result<()>>) -> Result<[String; 3]> {
    let [a, b, c] = merchants.each_ref().map(|merchant| merchant.pay_once("k", sale(1500)));
    let (a, b, c, ()) = tokio::try_join!(a, b, c, meanwhile)?;
    Ok([id(created(&a))?, id(created(&b))?, id(created(&c))?])
}

async fn all_three(merchants: &[Merchant; 3], what: &str, holds: impl AsyncFn(&Books) -> Result<bool>) -> Result<()> {
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

async fn all_are_booked(merchants: &[Merchant; 3]) -> Result<()> {
    all_three(merchants, "three charges", async |books| Ok(books.charges().await? == 1)).await
}

/// Approved, and charged once.
async fn ends_right(merchant: &Merchant, payment: &str) -> Result<()> {
    let payment = merchant.finished(payment).await?;
    assert_eq!(payment["status"], "pending_settlement");
    let replay = merchant.pay_once("k", sale(1500)).await?;
    assert_eq!(created(&replay), &payment);
    assert_eq!(merchant.books.charges().await?, 1);
    merchant.books.audit().await
}

/// Nobody but a person can find out, so nothing is sent on a guess, whatever happens.
async fn waits_for_a_person(cluster: &mut Cluster, merchant: &Merchant, payment: &str, charges: i64) -> Result<()> {
    let scheduler = scheduler_url(cluster);
    eventually("the alarm", async || Ok((for_a_person(&scheduler).await? == 1.0).then_some(()))).await?;
    cluster.redis.flush_all().await?;
    cluster.worker(0).restart().await?;
    let other = Merchant::new(cluster).await?;
    assert_eq!(created(&other.pay(100).await?)["status"], "pending_settlement", "work goes on");
    let payment = merchant.api.get(&format!("/v1/payments/{payment}")).await?;
    assert_eq!(ok(&payment)["status"], "processing", "nothing unknown is called failed");
    assert_eq!(merchant.books.charges().await?, charges);
    all_are_ready(cluster).await
}

#[tokio::test]
async fn a_worker_killed_between_charge_and_outcome_charges_once() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchants = of_each_class(&cluster).await?;
    let dying = async {
        all_are_booked(&merchants).await?;
        cluster.worker(0).kill9()?;
        for merchant in &merchants {
            assert_eq!(merchant.books.unfinished().await?, 1, "killed before it could say what became of it");
        }
        cluster.worker(0).restart().await
    };
    let payments = pay(&merchants, dying).await?;
    ends_right(&merchants[0], &payments[0]).await?;
    ends_right(&merchants[1], &payments[1]).await?;
    waits_for_a_person(&mut cluster, &merchants[2], &payments[2], 1).await
}

#[tokio::test]
async fn a_worker_killed_before_the_charge_charges_once() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchants = of_each_class(&cluster).await?;
    let dying = async {
        all_three(&merchants, "three requests under way", async |books| Ok(books.sent().await? == 1)).await?;
        cluster.worker(0).kill9()?;
        for merchant in &merchants {
            assert_eq!(merchant.books.charges().await?, 0, "killed before the provider could book it");
        }
        cluster.worker(0).restart().await
    };
    let payments = pay(&merchants, dying).await?;
    ends_right(&merchants[0], &payments[0]).await?;
    ends_right(&merchants[1], &payments[1]).await?;
    waits_for_a_person(&mut cluster, &merchants[2], &payments[2], 0).await
}

#[tokio::test]
async fn a_worker_that_slept_through_its_lease_changes_nothing_twice() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchants = of_each_class(&cluster).await?;
    let sleeping = async {
        all_are_booked(&merchants).await?;
        cluster.worker(0).pause()?;
        cluster.add(Kind::Worker).await.map(drop)
    };
    let payments = pay(&merchants, sleeping).await?;
    // The other worker takes over what it can find out...
    ends_right(&merchants[0], &payments[0]).await?;
    ends_right(&merchants[1], &payments[1]).await?;
    let scheduler = scheduler_url(&cluster);
    eventually("the alarm", async || Ok((for_a_person(&scheduler).await? == 1.0).then_some(()))).await?;
    // ...and the first one, when it wakes, finds its answers or its time-outs, but not its lease. Once it has ended, it has
    // said all that it had to say.
    cluster.worker(0).resume()?;
    assert_eq!(cluster.worker(0).terminate().await?.code(), Some(0));
    for (merchant, payment) in merchants[..2].iter().zip(&payments) {
        ends_right(merchant, payment).await?;
    }
    // In class C the late answer is a fact if it came in time, and the one thing that could end this without a person.
    let late = &merchants[2];
    let payment = late.api.get(&format!("/v1/payments/{}", payments[2])).await?;
    assert!(["processing", "pending_settlement"].contains(&ok(&payment)["status"].as_str().unwrap_or_default()));
    assert_eq!(late.books.charges().await?, 1);
    Ok(())
}
