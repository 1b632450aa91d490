//! Redis loses its data, Redis is killed, Postgres crashes: all under load. Of the rest of what can happen to both, the
//! simulation has more, but no crash.

use std::time::Duration;

use anyhow::{Context, Result};
use testkit::Cluster;
use tokio::time::sleep;

use super::assert_all_ready;
use crate::support::{Load, Merchant, created, eventually};

/// Crashes Postgres and restarts it after this time.
async fn crash(cluster: &mut Cluster, downtime: Duration) -> Result<()> {
    let postgres = cluster.postgres.as_mut().context("the cluster has its own Postgres")?;
    postgres.kill_immediate()?;
    sleep(downtime).await;
    postgres.restart().await
}

#[tokio::test]
async fn losing_redis_and_crashing_postgres_loses_no_payment() -> Result<()> {
    let mut cluster = Cluster::builder().own_postgres().api(1).worker(1).scheduler(1).start().await?;
    let [merchant, burst, late] =
        [Merchant::new(&cluster).await?, Merchant::new(&cluster).await?, Merchant::new(&cluster).await?];
    // Long enough for some charges to be in flight at any time.
    merchant.mock(&cluster, &["--latency-ms", "200"]).await?;
    let load = Load::new(&merchant, 8, 12);
    let breaking = async {
        load.wait_for(20).await?;
        cluster.redis.flush_all().await?;
        load.wait_for(60).await?;
        cluster.redis.kill9()?;
        load.wait_for(75).await?;
        cluster.redis.restart().await
    };
    tokio::try_join!(load.run(), breaking)?;

    // Many operations at once and a crash among them, so that some COMMITs get no response.
    let all_at_once = Load::new(&burst, 60, 1);
    let breaking = async {
        let some_written = async || Ok((burst.books.operations().await? >= 12).then_some(()));
        eventually("some operations", some_written).await?;
        crash(&mut cluster, Duration::from_millis(500)).await
    };
    tokio::try_join!(all_at_once.run(), breaking)?;

    // Down for longer than any request waits for a connection, so that some requests must fail.
    let during_downtime = Load::new(&late, 4, 4);
    tokio::try_join!(during_downtime.run(), crash(&mut cluster, Duration::from_secs(8)))?;
    assert!(during_downtime.had_server_errors(), "some requests must have got a 5xx");
    assert_all_ready(&mut cluster).await?;
    assert_eq!(created(&merchant.pay(1).await?)["status"], "pending_settlement");
    Ok(())
}
