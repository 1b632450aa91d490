//! A server that is away is seen in the metrics of those who need it, and so is its return.

use anyhow::{Context, Result};
use testkit::{Client, Cluster, Kind};

use crate::load::eventually;

/// The processes of this kind show this line among their metrics at last.
async fn shows(cluster: &Cluster, kind: Kind, line: &str) -> Result<()> {
    let internal = Client::new(&cluster.metrics_url(kind, 0))?;
    let look = async || {
        let text = String::from_utf8(internal.get("/metrics").await?.bytes)?;
        Ok(text.lines().any(|shown| shown == line).then_some(()))
    };
    eventually(line, look).await
}

#[tokio::test]
async fn a_server_that_is_away_is_seen() -> Result<()> {
    let mut cluster = Cluster::builder().own_postgres().worker(1).scheduler(1).start().await?;
    for kind in [Kind::Worker, Kind::Scheduler] {
        shows(&cluster, kind, "redis_up 1").await?;
        shows(&cluster, kind, "database_up 1").await?;
    }
    cluster.redis.kill9()?;
    shows(&cluster, Kind::Worker, "redis_up 0").await?;
    shows(&cluster, Kind::Scheduler, "redis_up 0").await?;
    cluster.postgres.as_mut().context("asked for")?.kill_immediate()?;
    shows(&cluster, Kind::Worker, "database_up 0").await?;
    cluster.redis.restart().await?;
    cluster.postgres.as_mut().context("asked for")?.restart().await?;
    for kind in [Kind::Worker, Kind::Scheduler] {
        shows(&cluster, kind, "database_up 1").await?;
        shows(&cluster, kind, "redis_up 1").await?;
    }
    Ok(())
}
