//! Monitors the database every few seconds: pool usage, the wait for a connection, whether writes commit, and the
//! offset between the machine's clock and the database's.

use std::pin::Pin;
use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio::time::{sleep, timeout};

use super::processes::Process;
use crate::clock::Clock;
use crate::db;

/// How long a write may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often the write is attempted.
const INTERVAL: Duration = Duration::from_secs(5);

type WriteFuture = Pin<Box<dyn Future<Output = sqlx::Result<bool>> + Send>>;

/// Runs forever; calls `after_check` after each check.
pub(super) async fn monitor(db: PgPool, process: Option<Process>, after_check: impl Fn()) {
    loop {
        record_pool(&db);
        let mut write: WriteFuture = Box::pin(write(db.clone(), process.clone()));
        let result = timeout(TIMEOUT, &mut write).await;
        metrics::gauge!("database_up").set(if matches!(result, Ok(Ok(true))) { 1.0 } else { 0.0 });
        after_check();
        match result {
            Ok(_) => sleep(INTERVAL).await,
            // A write that hangs is awaited before the next begins, because each would hold a connection.
            Err(_) => {
                while timeout(INTERVAL, &mut write).await.is_err() {
                    record_pool(&db);
                    after_check();
                }
            }
        }
    }
}

fn record_pool(db: &PgPool) {
    let (all, idle) = (db.size(), db.num_idle());
    metrics::gauge!("database_pool_connections", "state" => "idle").set(idle as f64);
    metrics::gauge!("database_pool_connections", "state" => "used").set(f64::from(all) - idle as f64);
    metrics::gauge!("database_pool_limit").set(f64::from(db.options().get_max_connections()));
}

/// Uses the pool as requests do. Returns whether the write was committed.
async fn write(db: PgPool, process: Option<Process>) -> sqlx::Result<bool> {
    let clock = Clock::system();
    let began = Instant::now();
    let connection = db.acquire().await;
    metrics::histogram!("database_pool_wait_seconds").record(began.elapsed().as_secs_f64());
    let mut connection = connection?;
    clock.synchronize(&mut connection).await?;
    metrics::gauge!("clock_off_seconds").set(clock.ahead_seconds().unwrap_or(0.0));
    if let Err(error) = clock.check() {
        tracing::error!(%error, "set this machine's clock");
    }
    match process {
        Some(process) => process.report(&mut connection, &clock).await.map(|()| true),
        None => db::can_commit(&mut connection).await,
    }
}
