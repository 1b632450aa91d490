//! The scheduler process: finds due work in Postgres and pushes it to the queue. Any number may run without a leader: a
//! claim moves the row's next due time forward, so no two schedulers enqueue the same work.

mod gauges;
mod schedule;
mod ticks;

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use foundation::clock::Clock;
use foundation::config;
use foundation::db;
use foundation::db::Db;
use foundation::public_url;
use foundation::queues;
use foundation::telemetry::{self, MetricsHandle};
use queue::Publisher;

use crate::schedule::Scheduler;

/// Postgres connections: one for each loop, a second one for loops that open a transaction of their own, and one for
/// /readyz.
const DATABASE_POOL: u32 = 8;

/// The program.
///
/// # Errors
/// As [`run`].
#[tokio::main]
pub async fn start() -> Result<()> {
    telemetry::init_logs();
    run(telemetry::init_metrics()?, telemetry::shutdown_signal()).await
}

/// Runs the process until `stop`, configured by environment variables.
///
/// # Errors
/// The configuration is invalid, or an address cannot be bound.
pub async fn run(metrics: MetricsHandle, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    queues::register_posts_metrics();
    engine::register_billing_metrics();
    schedule::register_metrics();
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
        redis_was_down: AtomicBool::new(false),
        collections_held: config::collections_held()?,
    };
    if scheduler.collections_held {
        tracing::warn!("COLLECTIONS_HELD is true: due invoices are not collected");
    }
    scheduler.run_until(stop).await;
    publisher.flush().await;
    internal.drain();
    tracing::info!("scheduler has stopped");
    Ok(())
}
