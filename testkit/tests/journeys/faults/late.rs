//! What comes after the lease has ended: a provider that takes longer than any lease, and a worker that was stopped between
//! the gate and the provider's books. The same request arrives again and again, and is one charge.

use std::time::Duration;

use anyhow::Result;
use testkit::{Cluster, Kind};
use tokio::time::sleep;

use super::{for_a_person, own_cluster, scheduler_url};
use crate::support::{Merchant, created, eventually, id, sale};

async fn of_class(cluster: &Cluster, class: &str, latency_ms: &str) -> Result<Merchant> {
    let merchant = Merchant::new(cluster).await?;
    merchant.mock(cluster, &["--class", class, "--latency-ms", latency_ms]).await?;
    Ok(merchant)
}

/// Approved, told so to whoever repeats the request, and charged once.
async fn ends_right(merchant: &Merchant, payment: &str) -> Result<()> {
    let payment = merchant.becomes(payment, "pending_settlement").await?;
    assert_eq!(created(&merchant.pay_once("k", sale(1500)).await?), &payment);
    merchant.all_agree(&id(&payment)?, "sale 1500", &["payment.captured"]).await?;
    assert_eq!(merchant.books.charges().await?, 1);
    merchant.books.audit().await
}

#[tokio::test]
async fn a_charge_delayed_past_the_lease_is_one_charge() -> Result<()> {
    let cluster = own_cluster().await?;
    // Half of it before the books are written: longer than the time-out and the lease together with nothing to spare.
    let merchants = [of_class(&cluster, "A", "45000").await?, of_class(&cluster, "B", "45000").await?];
    let [a, b] = merchants.each_ref().map(|merchant| merchant.pay_once("k", sale(1500)));
    let (a, b) = tokio::try_join!(a, b)?;
    for (merchant, answer) in merchants.iter().zip([&a, &b]) {
        // As a rule nothing is known yet; of a machine that is slow the api hears in time what was found out.
        let status = &created(answer)["status"];
        assert!(status == "processing" || status == "pending_settlement", "nothing is called failed: {status}");
        let booked = async || Ok((merchant.books.charges().await? == 1).then_some(()));
        eventually("the delayed charge", booked).await?;
        // From now on the provider answers.
        merchant.mock(&cluster, &["--latency-ms", "0"]).await?;
    }
    for (merchant, answer) in merchants.iter().zip([&a, &b]) {
        ends_right(merchant, &id(&answer.body)?).await?;
    }
    // Tries that were on their way meanwhile arrive as late as the first did, and one more cannot be seen arriving.
    sleep(Duration::from_secs(24)).await;
    for (merchant, answer) in merchants.iter().zip([&a, &b]) {
        ends_right(merchant, &id(&answer.body)?).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_worker_stopped_between_gate_and_books_is_one_charge() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchants = [
        of_class(&cluster, "A", "4000").await?,
        of_class(&cluster, "B", "4000").await?,
        of_class(&cluster, "C", "4000").await?,
    ];
    let stopping = async {
        for merchant in &merchants {
            eventually("a request under way", async || Ok((merchant.books.sent().await? == 1).then_some(()))).await?;
        }
        cluster.worker(0).pause()?;
        for merchant in &merchants {
            assert_eq!(merchant.books.charges().await?, 0, "stopped before the provider could book it");
        }
        cluster.add(Kind::Worker).await.map(drop)
    };
    let [a, b, c] = merchants.each_ref().map(|merchant| merchant.pay_once("k", sale(1500)));
    let (a, b, c, ()) = tokio::try_join!(a, b, c, stopping)?;
    // The second worker recovers what it can find out, and sends what it may.
    for (merchant, answer) in merchants.iter().zip([&a, &b]) {
        ends_right(merchant, &id(created(answer))?).await?;
    }
    let scheduler = scheduler_url(&cluster);
    eventually("the alarm", async || Ok((for_a_person(&scheduler).await? == 1.0).then_some(()))).await?;
    assert_eq!(created(&c)["status"], "processing");
    assert_eq!(merchants[2].books.charges().await?, 0, "nothing is sent on a guess");

    // The first one wakes past its lease, and its requests arrive at last.
    cluster.worker(0).resume()?;
    let arrived = async || Ok((merchants[2].books.charges().await? == 1).then_some(()));
    eventually("the late request of class C", arrived).await?;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.worker(0).terminate().await?.code(), Some(0));
    for (merchant, answer) in merchants.iter().zip([&a, &b]) {
        ends_right(merchant, &id(&answer.body)?).await?;
    }
    assert_eq!(merchants[2].books.charges().await?, 1, "the one request that was ever sent");
    Ok(())
}
