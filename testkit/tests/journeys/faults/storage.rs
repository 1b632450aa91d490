//! Redis loses everything, Redis dies, Postgres crashes: all under load.

use std::time::Duration;

use anyhow::{Context, Result};
use testkit::Cluster;
use tokio::time::sleep;

use super::all_are_ready;
use crate::support::{Load, Merchant, created};

#[tokio::test]
async fn nothing_is_lost_with_redis_nor_by_a_crash_of_postgres() -> Result<()> {
    let mut cluster = Cluster::builder().own_postgres().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    // Long enough that at any moment some are on their way.
    merchant.mock(&cluster, &["--latency-ms", "200"]).await?;
    let load = Load::new(&merchant, 8, 25);
    let breaking = async {
        load.at(20).await?;
        cluster.redis.flush_all().await?;
        load.at(60).await?;
        cluster.redis.kill9()?;
        load.at(75).await?;
        cluster.redis.restart().await?;
        load.at(110).await?;
        let postgres = cluster.postgres.as_mut().context("its own")?;
        postgres.kill_immediate()?;
        // Away for long enough that every process notices.
        sleep(Duration::from_secs(1)).await;
        postgres.restart().await
    };
    tokio::try_join!(load.run(), breaking)?;
    all_are_ready(&mut cluster).await?;
    assert_eq!(created(&merchant.pay(1).await?)["status"], "pending_settlement");
    Ok(())
}
