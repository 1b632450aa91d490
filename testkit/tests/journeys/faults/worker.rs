//! The only worker is killed or paused during charges, before and after the provider books them.

use anyhow::Result;
use testkit::{Cluster, ProcessKind, TempDir};

use super::{assert_all_ready, in_manual_review, own_cluster, scheduler_url};
use crate::support::{Merchant, created, eventually, failpoint_hits, id, ok, sale};

/// When a request has reached the mock, before the mock books the charge.
const RECEIVED: &str = "mock.received";
/// After the provider's response to a charge, before the worker records it.
const RESPONDED: &str = "perform.responded";
/// Charges that are held at each failpoint: one of each recovery class.
const HELD: usize = 3;

/// A cluster whose worker holds charges at both failpoints, and payments of a merchant of each recovery class at each.
struct Held {
    cluster: Cluster,
    folder: TempDir,
    received: [Merchant; HELD],
    responded: [Merchant; HELD],
}

/// A merchant of each recovery class, with charges of this latency.
async fn of_each_class(cluster: &Cluster, latency_ms: &str) -> Result<[Merchant; HELD]> {
    let [a, b, c] = [Merchant::new(cluster).await?, Merchant::new(cluster).await?, Merchant::new(cluster).await?];
    for (merchant, class) in [(&a, "A"), (&b, "B"), (&c, "C")] {
        merchant.mock(cluster, &["--latency-ms", latency_ms, "--class", class]).await?;
    }
    Ok([a, b, c])
}

/// Makes one payment of each merchant while `fault` runs. Returns the ids of the payments.
async fn pay(merchants: &[Merchant; HELD], fault: impl Future<Output = Result<()>>) -> Result<[String; HELD]> {
    let [a, b, c] = merchants.each_ref().map(|merchant| merchant.pay_with_key("k", sale(1500)));
    let (a, b, c, ()) = tokio::try_join!(a, b, c, fault)?;
    Ok([id(created(&a))?, id(created(&b))?, id(created(&c))?])
}

impl Held {
    async fn new() -> Result<Self> {
        let mut cluster = own_cluster().await?;
        // With a latency the mock handles each charge by itself.
        let received = of_each_class(&cluster, "1").await?;
        let responded = of_each_class(&cluster, "0").await?;
        let folder = TempDir::new()?;
        let hold = format!("{HELD}*return(hold={})", folder.path().join("resume").display());
        let worker = cluster.worker(0);
        worker.set_env("FAILPOINTS", &format!("{RECEIVED}={hold};{RESPONDED}={hold}"));
        worker.restart().await?;
        // A restart after the fault holds nothing.
        worker.set_env("FAILPOINTS", "");
        Ok(Self { cluster, folder, received, responded })
    }

    /// Makes all payments, and runs `fault` when the worker holds their charges. Returns the ids of the payments.
    async fn pay(&mut self, fault: impl AsyncFnOnce(&mut Cluster) -> Result<()>) -> Result<[[String; HELD]; 2]> {
        let Self { cluster, received, responded, .. } = self;
        let log = cluster.worker(0).log_path().to_owned();
        let mut ids = <[String; HELD]>::default();
        let both = async {
            failpoint_hits(&log, RECEIVED, HELD).await?;
            let stopping = async {
                failpoint_hits(&log, RESPONDED, HELD).await?;
                for (merchants, charges) in [(&*received, 0), (&*responded, 1)] {
                    for merchant in merchants {
                        let books = &merchant.books;
                        assert_eq!((books.charges().await?, books.unfinished().await?), (charges, 1));
                    }
                }
                fault(cluster).await
            };
            ids = pay(responded, stopping).await?;
            anyhow::Ok(())
        };
        let sent = pay(received, both).await?;
        Ok([sent, ids])
    }

    /// Asserts that the payments of classes A and B were approved and charged once.
    async fn assert_charged_once(&self, payments: &[[String; HELD]; 2]) -> Result<()> {
        for (merchants, payments) in [&self.received, &self.responded].into_iter().zip(payments) {
            for (merchant, payment) in merchants[..2].iter().zip(payments) {
                let payment = merchant.wait_for_status(payment, "pending_settlement").await?;
                let replay = merchant.pay_with_key("k", sale(1500)).await?;
                assert_eq!(created(&replay), &payment);
                merchant.assert_consistent(&id(&payment)?, "sale 1500", &["payment.captured"]).await?;
                assert_eq!(merchant.books.charges().await?, 1);
                merchant.books.audit().await?;
            }
        }
        Ok(())
    }

    async fn wait_for_manual_reviews(&self) -> Result<()> {
        let scheduler = scheduler_url(&self.cluster);
        eventually("two manual reviews", async || Ok((in_manual_review(&scheduler).await? == 2.0).then_some(()))).await
    }

    /// The payment of class C among these, and its charges.
    async fn unrecoverable(merchants: &[Merchant; HELD], payments: &[String; HELD]) -> Result<(String, i64)> {
        let payment = merchants[2].api.get(&format!("/v1/payments/{}", payments[2])).await?;
        let status = ok(&payment)["status"].as_str().unwrap_or_default().to_owned();
        Ok((status, merchants[2].books.charges().await?))
    }
}

#[tokio::test]
async fn a_worker_killed_before_or_after_the_charge_charges_once() -> Result<()> {
    let mut held = Held::new().await?;
    let payments = held
        .pay(async |cluster| {
            cluster.worker(0).kill9()?;
            cluster.worker(0).restart().await
        })
        .await?;
    held.assert_charged_once(&payments).await?;
    held.wait_for_manual_reviews().await?;
    // Nothing is sent blindly, also after a restart.
    held.cluster.redis.flush_all().await?;
    held.cluster.worker(0).restart().await?;
    let other = Merchant::new(&held.cluster).await?;
    assert_eq!(created(&other.pay(100).await?)["status"], "pending_settlement", "other payments still work");
    // An unknown outcome is not a failure.
    for (merchants, payments, charges) in [(&held.received, &payments[0], 0), (&held.responded, &payments[1], 1)] {
        assert_eq!(Held::unrecoverable(merchants, payments).await?, ("processing".to_owned(), charges));
    }
    assert_all_ready(&mut held.cluster).await
}

#[tokio::test]
async fn a_worker_paused_past_its_lease_changes_nothing_twice() -> Result<()> {
    let mut held = Held::new().await?;
    let payments = held
        .pay(async |cluster| {
            cluster.worker(0).pause()?;
            cluster.add(ProcessKind::Worker).await.map(drop)
        })
        .await?;
    // The other worker recovers classes A and B...
    held.assert_charged_once(&payments).await?;
    held.wait_for_manual_reviews().await?;
    let sending = Held::unrecoverable(&held.received, &payments[0]).await?;
    assert_eq!(sending, ("processing".to_owned(), 0), "nothing is sent blindly");
    // ...and the first one resumes without its leases: its requests arrive, and it has responses. After its exit all its
    // writes are done.
    std::fs::write(held.folder.path().join("resume"), "")?;
    held.cluster.worker(0).resume()?;
    let arrived = async || Ok((held.received[2].books.charges().await? == 1).then_some(()));
    eventually("the late request of class C", arrived).await?;
    assert_eq!(held.cluster.worker(0).terminate().await?.code(), Some(0));
    held.assert_charged_once(&payments).await?;
    for (merchants, payments) in [(&held.received, &payments[0]), (&held.responded, &payments[1])] {
        // In class C only a late response, if it arrived in time, can resolve the payment without a manual review.
        let (status, charges) = Held::unrecoverable(merchants, payments).await?;
        assert!(["processing", "pending_settlement"].contains(&status.as_str()), "{status}");
        assert_eq!(charges, 1, "exactly one request was ever sent");
    }
    Ok(())
}
