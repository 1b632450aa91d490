//! The only worker dies after the provider has charged and before we know of it.

use anyhow::Result;

use super::{all_are_ready, for_a_person, own_cluster, scheduler_url};
use crate::support::{Merchant, created, eventually, id, sale};

#[tokio::test]
async fn a_worker_killed_between_charge_and_outcome_charges_once() -> Result<()> {
    let mut cluster = own_cluster().await?;
    // What is left to do differs with what the provider offers, so each class has a merchant.
    let mut merchants = Vec::new();
    for class in ["A", "B", "C"] {
        let merchant = Merchant::new(&cluster).await?;
        merchant.mock(&cluster, &["--latency-ms", "4000", "--class", class]).await?;
        merchants.push(merchant);
    }
    let [a, b, c] = &merchants[..] else { unreachable!("three were made") };
    let scheduler = scheduler_url(&cluster);
    let dying = async {
        eventually("three charges", async || {
            let charges = a.books.charges().await? + b.books.charges().await? + c.books.charges().await?;
            Ok((charges == 3).then_some(()))
        })
        .await?;
        cluster.worker(0).kill9()?;
        assert_eq!(a.books.unfinished().await?, 1, "killed before it could say what became of it");
        cluster.worker(0).restart().await
    };
    let pay = async |merchant: &Merchant| merchant.pay_once("k", sale(1500)).await;
    let (first, second, third, ()) = tokio::try_join!(pay(a), pay(b), pay(c), dying)?;

    for (merchant, answer) in [(a, &first), (b, &second)] {
        let payment = merchant.finished(&id(created(answer))?).await?;
        assert_eq!(payment["status"], "pending_settlement");
        let replay = merchant.pay_once("k", sale(1500)).await?;
        assert_eq!(created(&replay), &payment);
        assert_eq!(merchant.books.charges().await?, 1);
        merchant.books.audit().await?;
    }

    // Class C: nobody can find out but a person, and nothing is sent on a guess.
    assert_eq!(created(&third)["status"], "processing");
    eventually("the alarm", async || Ok((for_a_person(&scheduler).await? == 1.0).then_some(()))).await?;
    cluster.redis.flush_all().await?;
    cluster.worker(0).restart().await?;
    assert_eq!(created(&a.pay(100).await?)["status"], "pending_settlement", "work goes on");
    assert_eq!(c.api.get(&format!("/v1/payments/{}", id(&third.body)?)).await?.body["status"], "processing");
    assert_eq!(c.books.charges().await?, 1);
    all_are_ready(&mut cluster).await
}
