//! Graceful shutdown: processes finish what they have started.

use anyhow::Result;
use testkit::Cluster;

use crate::support::{Merchant, concurrently, created, eventually};

const AT_ONCE: usize = 24;

/// Makes concurrent payments and runs `stop` when all operations are written. Every response must have its outcome.
async fn pay_during(merchant: &Merchant, stop: impl Future<Output = Result<()>>) -> Result<()> {
    let expected = i64::try_from(AT_ONCE)? + merchant.books.operations().await?;
    let stopping = async {
        eventually("all operations", async || Ok((merchant.books.operations().await? == expected).then_some(())))
            .await?;
        stop.await
    };
    let paying = concurrently(AT_ONCE, async |i| merchant.pay(100 + i64::try_from(i)?).await);
    let (responses, ()) = tokio::try_join!(paying, stopping)?;
    for response in &responses {
        assert_eq!(created(response)["status"], "pending_settlement", "no request may be lost");
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn in_flight_operations_finish_before_shutdown() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--latency-ms", "1500"]).await?;

    pay_during(&merchant, async {
        let status = cluster.worker(0).terminate().await?;
        assert_eq!(status.code(), Some(0), "the worker must exit with 0");
        Ok(())
    })
    .await?;
    pay_during(&merchant, async {
        let status = cluster.api(0).terminate().await?;
        assert_eq!(status.code(), Some(0), "the api must exit with 0");
        Ok(())
    })
    .await?;
    assert!(merchant.api.get("/v1/payments").await.is_err(), "a stopped api accepts no request");
    assert_eq!(cluster.scheduler(0).terminate().await?.code(), Some(0), "the scheduler must exit with 0");
    Ok(())
}
