//! Two workers and two schedulers, and a Redis that hangs half of the time: nothing is done twice.

use std::time::Duration;

use anyhow::Result;
use testkit::Cluster;
use tokio::time::sleep;

use super::assert_all_ready;
use crate::support::{Load, Merchant};

#[tokio::test]
async fn two_workers_and_two_schedulers_charge_once() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(2).env("DATABASE_POOL", "16").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--latency-ms", "300"]).await?;
    let load = Load::new(&merchant, 8, 8);
    let pausing = async {
        // Paused, not killed: connections stay open without responses, and all commands arrive later.
        for done in [8, 20, 32, 44] {
            load.wait_for(done).await?;
            cluster.redis.pause()?;
            sleep(Duration::from_secs(4)).await;
            cluster.redis.resume()?;
        }
        Ok(())
    };
    tokio::try_join!(load.run(), pausing)?;
    assert_all_ready(&mut cluster).await
}
