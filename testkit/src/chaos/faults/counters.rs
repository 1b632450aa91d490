//! Counters of Postgres.

use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio::time::timeout;

/// How often they are read.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The number of deadlocks. A crash of Postgres resets its counter, so the values before each crash are added up.
#[derive(Debug, Default)]
pub(super) struct Deadlocks {
    previous: i64,
    last: i64,
    polled_at: Option<Instant>,
}

impl Deadlocks {
    pub(super) async fn poll(&mut self, db: &PgPool) {
        if self.polled_at.is_some_and(|polled_at| polled_at.elapsed() < POLL_INTERVAL) {
            return;
        }
        self.polled_at = Some(Instant::now());
        let count = sqlx::query_scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
        if let Ok(Ok(count)) = timeout(Duration::from_secs(1), count.fetch_one(db)).await {
            self.record(count);
        }
    }

    fn record(&mut self, count: i64) {
        if count < self.last {
            self.previous += self.last;
        }
        self.last = count;
    }

    pub(super) fn total(&self) -> i64 {
        self.previous + self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_before_a_reset_are_added_up() {
        let mut deadlocks = Deadlocks::default();
        for (count, total) in [(0, 0), (2, 2), (2, 2), (0, 2), (1, 3)] {
            deadlocks.record(count);
            assert_eq!(deadlocks.total(), total);
        }
    }
}
