//! Requests that arrive after their lease has ended: a provider slower than any lease, and a worker paused before the
//! provider books the charge. The same request arrives several times and is charged once.

use std::time::Duration;

use anyhow::Result;
use testkit::{Cluster, ProcessKind};
use tokio::time::sleep;

use super::{hold_charges, in_manual_review, own_cluster, scheduler_url, wait_until_held};
use crate::support::{Merchant, created, eventually, id, sale};

/// When a request has reached the mock, before the mock books the charge.
const RECEIVED: &str = "mock.received";

async fn merchant_of_class(cluster: &Cluster, class: &str, latency_ms: &str) -> Result<Merchant> {
    let merchant = Merchant::new(cluster).await?;
    merchant.mock(cluster, &["--class", class, "--latency-ms", latency_ms]).await?;
    Ok(merchant)
}

/// Asserts that the payment was approved and charged once, and that a repeated request returns it.
async fn assert_charged_once(merchant: &Merchant, payment: &str) -> Result<()> {
    let payment = merchant.wait_for_status(payment, "pending_settlement").await?;
    assert_eq!(created(&merchant.pay_with_key("k", sale(1500)).await?), &payment);
    merchant.assert_consistent(&id(&payment)?, "sale 1500", &["payment.captured"]).await?;
    assert_eq!(merchant.books.charges().await?, 1);
    merchant.books.audit().await
}

#[tokio::test]
#[ignore = "waits for the end of a lease"]
async fn a_charge_slower_than_the_lease_is_made_once() -> Result<()> {
    let cluster = own_cluster().await?;
    // The mock books after half the latency, which is just longer than the time-out and the lease together.
    let merchants =
        [merchant_of_class(&cluster, "A", "45000").await?, merchant_of_class(&cluster, "B", "45000").await?];
    let [a, b] = merchants.each_ref().map(|merchant| merchant.pay_with_key("k", sale(1500)));
    let (a, b) = tokio::try_join!(a, b)?;
    for (merchant, response) in merchants.iter().zip([&a, &b]) {
        // Usually the outcome is not known yet. On a slow machine it may be, before the api stops waiting.
        let status = &created(response)["status"];
        assert!(
            status == "processing" || status == "pending_settlement",
            "an unknown outcome is not a failure: {status}"
        );
        let booked = async || Ok((merchant.books.charges().await? == 1).then_some(()));
        eventually("the delayed charge", booked).await?;
        // From now on the provider responds at once.
        merchant.mock(&cluster, &["--latency-ms", "0"]).await?;
    }
    for (merchant, response) in merchants.iter().zip([&a, &b]) {
        assert_charged_once(merchant, &id(&response.body)?).await?;
    }
    // Repeated requests in flight arrive as late as the first one, and nothing shows their arrival, so wait for them.
    sleep(Duration::from_secs(24)).await;
    for (merchant, response) in merchants.iter().zip([&a, &b]) {
        assert_charged_once(merchant, &id(&response.body)?).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_worker_paused_while_sending_charges_once() -> Result<()> {
    let mut cluster = own_cluster().await?;
    // With a latency the mock handles each charge by itself.
    let merchants = [
        merchant_of_class(&cluster, "A", "1").await?,
        merchant_of_class(&cluster, "B", "1").await?,
        merchant_of_class(&cluster, "C", "1").await?,
    ];
    let held = hold_charges(&mut cluster, RECEIVED).await?;
    let stopping = async {
        wait_until_held(&mut cluster, RECEIVED).await?;
        cluster.worker(0).pause()?;
        for merchant in &merchants {
            assert_eq!(merchant.books.charges().await?, 0, "the worker is paused before the provider books the charge");
        }
        cluster.add(ProcessKind::Worker).await.map(drop)
    };
    let [a, b, c] = merchants.each_ref().map(|merchant| merchant.pay_with_key("k", sale(1500)));
    let (a, b, c, ()) = tokio::try_join!(a, b, c, stopping)?;
    // The second worker recovers classes A and B. Class C goes to manual review.
    for (merchant, response) in merchants.iter().zip([&a, &b]) {
        assert_charged_once(merchant, &id(created(response))?).await?;
    }
    let scheduler = scheduler_url(&cluster);
    eventually("a manual review", async || Ok((in_manual_review(&scheduler).await? == 1.0).then_some(()))).await?;
    assert_eq!(created(&c)["status"], "processing");
    assert_eq!(merchants[2].books.charges().await?, 0, "nothing is sent blindly");

    // The first worker resumes after its lease, and its requests arrive.
    held.release()?;
    cluster.worker(0).resume()?;
    let arrived = async || Ok((merchants[2].books.charges().await? == 1).then_some(()));
    eventually("the late request of class C", arrived).await?;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.worker(0).terminate().await?.code(), Some(0));
    for (merchant, response) in merchants.iter().zip([&a, &b]) {
        assert_charged_once(merchant, &id(&response.body)?).await?;
    }
    assert_eq!(merchants[2].books.charges().await?, 1, "exactly one request was ever sent");
    Ok(())
}
