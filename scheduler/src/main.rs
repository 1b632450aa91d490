//! The scheduler process: finds what is due in Postgres and hands it out. Any number may run; there is no leader. A claim is
//! a row whose next turn has been moved on, so two never hand out the same.

mod figures;
mod schedule;

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use common::clock::Clock;
use common::db::Db;
use common::{config, db, flows, public_url, queues, telemetry};
use queue::Publisher;

use crate::schedule::Scheduler;

/// Connections to Postgres: one for each loop, a second one where work is begun within it, and one for /readyz.
const DATABASE_POOL: u32 = 8;

#[tokio::main]
async fn main() -> Result<()> {
    telemetry::init_logs();
    let metrics = telemetry::init_metrics()?;
    queues::count_posts_from_nought();
    flows::count_billing_from_nought();
    schedule::count_from_nought();
    public_url::set(config::public_url()?);
    let pool = db::pool(&config::database_url()?, config::database_pool(DATABASE_POOL)?, "scheduler")?;
    let internal = telemetry::Internal::new(pool.clone(), metrics).reporting("scheduler");
    let metrics_address = internal.clone().serve(config::metrics_bind()?).await.context("METRICS_BIND")?;
    let publisher = Publisher::connect(&config::redis()?);
    tracing::info!(metrics = %metrics_address, "scheduler is running");

    let db = Db::new(pool, publisher.clone());
    let scheduler = Scheduler {
        db,
        publisher: publisher.clone(),
        clock: Clock::system(),
        retention_months: config::retention_months()?,
        redis_is_away: AtomicBool::new(false),
        collections_held: config::collections_held()?,
    };
    if scheduler.collections_held {
        tracing::warn!("COLLECTIONS_HELD is true: no attempt to collect an invoice begins; what is due waits");
    }
    scheduler.run_until(telemetry::shutdown_signal()).await;
    publisher.flush().await;
    internal.drain();
    tracing::info!("scheduler has stopped");
    Ok(())
}
