//! Redis loses everything, Redis dies, Postgres crashes: all under load.

use std::time::Duration;

use anyhow::{Context, Result};
use testkit::Cluster;
use tokio::time::sleep;

use super::all_are_ready;
use crate::support::{Load, Merchant, created, eventually};

async fn breakable() -> Result<Cluster> {
    Cluster::builder().own_postgres().api(1).worker(1).scheduler(1).start().await
}

/// A crash of Postgres that lasts this long.
async fn crash(cluster: &mut Cluster, away: Duration) -> Result<()> {
    let postgres = cluster.postgres.as_mut().context("its own")?;
    postgres.kill_immediate()?;
    sleep(away).await;
    postgres.restart().await
}

#[tokio::test]
async fn nothing_is_lost_with_redis_nor_by_a_crash_of_postgres() -> Result<()> {
    let mut cluster = breakable().await?;
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
        crash(&mut cluster, Duration::from_secs(1)).await
    };
    tokio::try_join!(load.run(), breaking)?;
    all_are_ready(&mut cluster).await?;
    assert_eq!(created(&merchant.pay(1).await?)["status"], "pending_settlement");
    Ok(())
}

#[tokio::test]
async fn what_is_answered_around_a_crash_of_postgres_is_true() -> Result<()> {
    let mut cluster = breakable().await?;
    let (burst, late) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    // Many intents at once, and the crash in their midst: some COMMITs get no answer.
    let all_at_once = Load::new(&burst, 60, 1);
    let breaking = async {
        let begun = async || Ok((burst.books.operations().await? >= 12).then_some(()));
        eventually("some intents", begun).await?;
        crash(&mut cluster, Duration::from_millis(500)).await
    };
    tokio::try_join!(all_at_once.run(), breaking)?;

    // Away for longer than anyone waits for a connection, so that the new requests must be refused.
    let meanwhile = Load::new(&late, 4, 4);
    tokio::try_join!(meanwhile.run(), crash(&mut cluster, Duration::from_secs(8)))?;
    assert!(meanwhile.was_refused(), "a 5xx was seen, and told the truth");
    all_are_ready(&mut cluster).await
}
