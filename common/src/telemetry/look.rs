//! What a process sees of its database, every few seconds: how full the pool is, how long a connection is waited for, whether
//! what is written is committed, and how far the two clocks are apart.

use std::pin::Pin;
use std::time::{Duration, Instant};

use sqlx::{PgConnection, PgPool, Row};
use tokio::time::{sleep, timeout};

use crate::clock::Clock;
use crate::db;
use crate::time::Timestamp;

/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is tried.
const EVERY: Duration = Duration::from_secs(5);

/// By one round trip: the simple protocol prepares nothing.
const THEIR_TIME: &str = "SELECT extract(epoch FROM clock_timestamp())::float8";

/// A write that has not come to its end.
type Writing = Pin<Box<dyn Future<Output = sqlx::Result<bool>> + Send>>;

/// Looks for as long as the process lives, and calls `looked` after each time.
pub(super) async fn look_at(db: PgPool, clock: Clock, looked: impl Fn()) {
    loop {
        pool(&db);
        let mut writing: Writing = Box::pin(write(db.clone(), clock.clone()));
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
async fn write(db: PgPool, clock: Clock) -> sqlx::Result<bool> {
    let began = Instant::now();
    let connection = db.acquire().await;
    metrics::histogram!("database_pool_wait_seconds").record(began.elapsed().as_secs_f64());
    let mut connection = connection?;
    metrics::gauge!("clock_off_seconds").set(clock_off(&mut connection, &clock).await?);
    db::commits(&mut connection).await
}

/// How far our clock is ahead of the database's, in seconds.
async fn clock_off(connection: &mut PgConnection, clock: &Clock) -> sqlx::Result<f64> {
    let asked = clock.now();
    let row = sqlx::raw_sql(THEIR_TIME).fetch_one(connection).await?;
    Ok(ahead_by(asked, clock.now(), row.try_get(0)?))
}

/// Theirs was read about halfway between the question and its answer.
fn ahead_by(asked: Timestamp, answered: Timestamp, theirs: f64) -> f64 {
    i64::midpoint(asked.as_millisecond(), answered.as_millisecond()) as f64 / 1000.0 - theirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_way_there_and_back_is_no_difference() {
        let at = |text| Timestamp::parse(text).expect("an instant");
        let (asked, answered) = (at("2026-11-22T00:00:00Z"), at("2026-11-22T00:00:02Z"));
        let theirs = |seconds: f64| asked.as_millisecond() as f64 / 1000.0 + seconds;
        for (seconds, ahead) in [(1.0, 0.0), (-2.0, 3.0), (5.5, -4.5)] {
            assert!((ahead_by(asked, answered, theirs(seconds)) - ahead).abs() < 0.001, "{seconds}");
        }
    }
}
