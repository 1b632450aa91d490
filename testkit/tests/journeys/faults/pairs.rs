//! Two of each process, and a Redis that is half the time not there: nothing is done twice.

use std::time::Duration;

use anyhow::Result;
use testkit::Cluster;
use tokio::time::sleep;

use super::all_are_ready;
use crate::support::{Load, Merchant};

#[tokio::test]
async fn two_workers_and_two_schedulers_do_nothing_twice() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(2).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--latency-ms", "300"]).await?;
    let load = Load::new(&merchant, 8, 8);
    let stopping = async {
        // Stopped, not killed: connections stay open, nothing is answered, and later all that was sent arrives.
        for done in [8, 20, 32, 44] {
            load.at(done).await?;
            cluster.redis.pause()?;
            sleep(Duration::from_secs(4)).await;
            cluster.redis.resume()?;
        }
        Ok(())
    };
    tokio::try_join!(load.run(), stopping)?;
    all_are_ready(&mut cluster).await
}
