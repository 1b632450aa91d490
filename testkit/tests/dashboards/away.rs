//! A server that is away is seen in the metrics of those who need it, and so is its return.

use anyhow::{Context, Result};
use testkit::{Client, Cluster, Kind};

use crate::load::eventually;

/// Both kinds of process say at last whether Redis and Postgres answer them.
async fn said(cluster: &Cluster, up: u8) -> Result<()> {
    for kind in [Kind::Worker, Kind::Scheduler] {
        let internal = Client::new(&cluster.metrics_url(kind, 0))?;
        let lines = [format!("redis_up {up}"), format!("database_up {up}")];
        let look = async || {
            let text = String::from_utf8(internal.get("/metrics").await?.bytes)?;
            Ok(lines.iter().all(|line| text.lines().any(|shown| shown == line)).then_some(()))
        };
        eventually(&lines.join(", "), look).await?;
    }
    Ok(())
}

#[tokio::test]
async fn servers_that_are_away_are_seen() -> Result<()> {
    let mut cluster = Cluster::builder().own_postgres().worker(1).scheduler(1).start().await?;
    said(&cluster, 1).await?;
    cluster.redis.kill9()?;
    cluster.postgres.as_mut().context("asked for")?.kill_immediate()?;
    said(&cluster, 0).await?;
    cluster.redis.restart().await?;
    cluster.postgres.as_mut().context("asked for")?.restart().await?;
    said(&cluster, 1).await
}
