//! What a process sees of its database, every few seconds: how full the pool is, how long a connection is waited for, whether
//! what is written is committed, and how far the two clocks are apart.

use std::pin::Pin;
use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio::time::{sleep, timeout};

use super::processes::Process;
use crate::clock::Clock;
use crate::db;

/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is tried.
const EVERY: Duration = Duration::from_secs(5);

/// A write that has not come to its end.
type Writing = Pin<Box<dyn Future<Output = sqlx::Result<bool>> + Send>>;

/// Looks for as long as the process lives, and calls `looked` after each time.
pub(super) async fn look_at(db: PgPool, process: Option<Process>, looked: impl Fn()) {
    loop {
        pool(&db);
        let mut writing: Writing = Box::pin(write(db.clone(), process.clone()));
        let answered = timeout(PATIENCE, &mut writing).await;
        metrics::gauge!("database_up").set(if matches!(answered, Ok(Ok(true))) { 1.0 } else { 0.0 });
        looked();
        match answered {
            Ok(_) => sleep(EVERY).await,
            // One that hangs is waited for, and no other is begun beside it: each would hold a connection for as long.
            Err(_) => {
                while timeout(EVERY, &mut writing).await.is_err() {
                    pool(&db);
                    looked();
                }
            }
        }
    }
}

fn pool(db: &PgPool) {
    let (all, idle) = (db.size(), db.num_idle());
    metrics::gauge!("database_pool_connections", "state" => "idle").set(idle as f64);
    metrics::gauge!("database_pool_connections", "state" => "used").set(f64::from(all) - idle as f64);
    metrics::gauge!("database_pool_limit").set(f64::from(db.options().get_max_connections()));
}

/// As any request meets it. Answers whether it was written.
async fn write(db: PgPool, process: Option<Process>) -> sqlx::Result<bool> {
    let clock = Clock::system();
    let began = Instant::now();
    let connection = db.acquire().await;
    metrics::histogram!("database_pool_wait_seconds").record(began.elapsed().as_secs_f64());
    let mut connection = connection?;
    clock.synchronize(&mut connection).await?;
    metrics::gauge!("clock_off_seconds").set(clock.ahead_seconds().unwrap_or(0.0));
    if let Err(wrong) = clock.check() {
        tracing::error!(%wrong, "set this machine's clock");
    }
    match process {
        Some(process) => process.report(&mut connection, &clock).await.map(|()| true),
        None => db::commits(&mut connection).await,
    }
}
