//! Processes that are asked to end finish what they have begun.

use anyhow::Result;
use testkit::Cluster;

use crate::support::{Merchant, created, eventually, together};

const AT_ONCE: usize = 24;

/// Payments that all are under way when `stop` is called. Every one is answered with its outcome.
async fn under_way(merchant: &Merchant, stop: impl Future<Output = Result<()>>) -> Result<()> {
    let begun = i64::try_from(AT_ONCE)? + merchant.books.operations().await?;
    let stopping = async {
        eventually("all intents", async || Ok((merchant.books.operations().await? == begun).then_some(()))).await?;
        stop.await
    };
    let paying = together(AT_ONCE, async |i| merchant.pay(100 + i64::try_from(i)?).await);
    let (answers, ()) = tokio::try_join!(paying, stopping)?;
    for answer in &answers {
        assert_eq!(created(answer)["status"], "pending_settlement", "no request is lost");
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn what_is_in_flight_is_finished_before_the_end() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--latency-ms", "1500"]).await?;

    under_way(&merchant, async {
        let status = cluster.worker(0).terminate().await?;
        assert_eq!(status.code(), Some(0), "the worker ends well");
        Ok(())
    })
    .await?;
    under_way(&merchant, async {
        let status = cluster.api(0).terminate().await?;
        assert_eq!(status.code(), Some(0), "the api ends well");
        Ok(())
    })
    .await?;
    assert!(merchant.api.get("/v1/payments").await.is_err(), "nothing new is taken");
    assert_eq!(cluster.scheduler(0).terminate().await?.code(), Some(0), "the scheduler ends well");
    Ok(())
}
