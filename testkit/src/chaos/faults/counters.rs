//! What Postgres counts by itself.

use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio::time::timeout;

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(2);

/// Deadlocks, over all restarts of Postgres: a crash of it begins its counters anew.
#[derive(Debug, Default)]
pub(super) struct Deadlocks {
    former: i64,
    last: i64,
    asked: Option<Instant>,
}

impl Deadlocks {
    pub(super) async fn look(&mut self, db: &PgPool) {
        if self.asked.is_some_and(|asked| asked.elapsed() < EVERY) {
            return;
        }
        self.asked = Some(Instant::now());
        let count = sqlx::query_scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
        if let Ok(Ok(count)) = timeout(Duration::from_secs(1), count.fetch_one(db)).await {
            self.note(count);
        }
    }

    fn note(&mut self, count: i64) {
        if count < self.last {
            self.former += self.last;
        }
        self.last = count;
    }

    pub(super) fn counted(&self) -> i64 {
        self.former + self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_begin_anew_are_added_up() {
        let mut deadlocks = Deadlocks::default();
        for (count, total) in [(0, 0), (2, 2), (2, 2), (0, 2), (1, 3)] {
            deadlocks.note(count);
            assert_eq!(deadlocks.counted(), total);
        }
    }
}
