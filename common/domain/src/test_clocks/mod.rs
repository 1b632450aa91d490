//! Test clocks: the time of a test account, which can be advanced ahead of the real time but never set back.
//!
//! A clock is an offset to the real time, so it keeps running. While it is being advanced it is frozen and moves from
//! one due instant to the next. The worker that advances it holds a lease and sends its fencing token with every step
//! (`engine::advance_clock`).

mod view;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

pub use view::TestClockView;

use foundation::db::{self, Db};
use foundation::error::{Error, Result};
use foundation::id::AccountId;
use foundation::queues;
use foundation::time::Timestamp;

/// The longest advance: four years, which is longer than any plan's interval. An advance does all work that falls due
/// on the way, so this bounds the work of one request.
pub const MAX_ADVANCE: Duration = Duration::from_secs(1_461 * 24 * 3_600);
/// Clocks stay before this time, so that dates computed from a clock's time stay within the calendar.
const CLOCK_LIMIT: &str = "9000-01-01T00:00:00Z";
/// The lease of an advance; longer than the work between two steps of the clock.
const LEASE: Duration = Duration::from_secs(15);
/// The time after which the sweep queues an unclaimed advance again.
const PUSH_INTERVAL: Duration = Duration::from_secs(3);
/// The maximum number of advances that one sweep queues.
const SWEEP_BATCH: i64 = 100;

/// The state of a clock.
#[derive(Clone, Copy, Debug)]
pub struct TestClock {
    /// The account's time.
    pub now: Timestamp,
    /// The time that the clock is being advanced to, if it is being advanced.
    pub target: Option<Timestamp>,
}

/// Returns the clock of an account. A clock that was never advanced shows the real time, `now`.
///
/// # Errors
/// Database errors only.
pub async fn retrieve(db: &PgPool, account: AccountId, now: Timestamp) -> Result<TestClock> {
    Ok(sqlx::query_as!(
        TestClock,
        r#"SELECT account_now($1, $2) AS "now!", (SELECT target FROM test_clocks WHERE account_id = $1) AS target"#,
        account.uuid(),
        now,
    )
    .fetch_one(db)
    .await?)
}

/// Checks that a clock at `now` may be advanced to `to`.
///
/// # Errors
/// 422 `to` if it may not.
pub fn check_target(to: Timestamp, now: Timestamp) -> Result<()> {
    let end = Timestamp::parse(CLOCK_LIMIT).expect("an instant");
    let problem = if to <= now {
        format!("to must be later than the account's time, {now}")
    } else if to > now.plus(MAX_ADVANCE) {
        format!(
            "to must be at most four years (1,461 days) later than the account's time, {now}; advance again from there"
        )
    } else if to >= end {
        format!("to must be earlier than {end}")
    } else {
        return Ok(());
    };
    Err(Error::invalid("to", problem))
}

/// Creates the clock of an account if it has none. Returns how long to wait until no process uses cached data from
/// before the clock existed; `cache_ttl` is the longest time that a process caches it.
///
/// # Errors
/// Database errors only.
pub async fn create(db: &PgPool, account: AccountId, cache_ttl: Duration) -> Result<Duration> {
    let wait = insert(db, account, cache_ttl).await?;
    // `None`: a concurrent request has just created the clock.
    Ok(wait.map_or(cache_ttl, Duration::from_secs_f64))
}

/// Returns the seconds to wait; `None` if a concurrent transaction has just inserted the row, which this one cannot
/// see. The advisory lock waits for transactions that do the account's due work and found no clock to hold.
async fn insert(db: &PgPool, account: AccountId, cache_ttl: Duration) -> Result<Option<f64>> {
    let mut tx = db::begin(db).await?;
    sqlx::query!("SELECT pg_advisory_xact_lock(making_of_clock($1)) AS locked", account.uuid())
        .execute(&mut *tx)
        .await?;
    let wait = sqlx::query_scalar!(
        "WITH made AS (
             INSERT INTO test_clocks (account_id) VALUES ($1) ON CONFLICT (account_id) DO NOTHING RETURNING created_at),
         clock AS (
             SELECT created_at FROM made UNION ALL SELECT created_at FROM test_clocks WHERE account_id = $1)
         SELECT greatest(0, extract(epoch FROM created_at + make_interval(secs => $2) - clock_timestamp()))::float8 FROM clock",
        account.uuid(),
        cache_ttl.as_secs_f64(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    tx.commit_repeatable().await?;
    Ok(wait.flatten())
}

/// Starts advancing a clock to `to`, unless it already is being advanced to it. Returns the clock's state. A worker
/// completes the advance.
///
/// # Errors
/// [`Error::Conflict`] while the clock is being advanced to another instant.
pub async fn begin(db: &Db, account: AccountId, to: Timestamp, now: Timestamp) -> Result<TestClock> {
    loop {
        if let Some(now) = set_target(db, account, to, now, PUSH_INTERVAL).await? {
            db.wake(queues::CLOCKS, [account.uuid()]);
            return Ok(TestClock { now, target: Some(to) });
        }
        let clock = retrieve(db, account, now).await?;
        match clock.target {
            Some(target) if target != to => {
                return Err(Error::conflict(format!("the clock is being advanced to {target}")));
            }
            // An advance to an earlier instant has ended since.
            None if clock.now < to => {}
            // The same advance, running or just completed.
            Some(_) | None => return Ok(clock),
        }
    }
}

/// Computes the time from the row's own columns, as `account_now` does: a function would see their values from before
/// the statement waited for the row lock.
async fn set_target(
    db: &PgPool,
    account: AccountId,
    to: Timestamp,
    now: Timestamp,
    push_after: Duration,
) -> Result<Option<Timestamp>> {
    let frozen_at = sqlx::query_scalar!(
        r#"UPDATE test_clocks SET target = $2, next_push_at = clock_timestamp() + make_interval(secs => $4),
                  frozen_at = greatest(reached, $3::timestamptz + ahead_us * interval '1 microsecond')
           WHERE account_id = $1 AND target IS NULL
             AND greatest(reached, $3::timestamptz + ahead_us * interval '1 microsecond') < $2
           RETURNING frozen_at AS "frozen_at!""#,
        account.uuid(),
        to,
        now,
        push_after.as_secs_f64(),
    )
    .fetch_optional(db)
    .await?;
    Ok(frozen_at)
}

/// An advance that was stopped before its target.
#[derive(Clone, Copy, Debug)]
pub struct StoppedAdvance {
    /// The clock's time when it was stopped. It runs on from there.
    pub at: Timestamp,
    pub target: Timestamp,
}

/// Stops an advance at the clock's current time. The worker notices at its next step that it has lost the lease;
/// requests that wait for the advance see that it has ended.
///
/// # Errors
/// [`Error::NotFound`] for an unknown account; [`Error::Conflict`] if its clock is not being advanced.
pub async fn stop(tx: &mut PgConnection, account: AccountId) -> Result<StoppedAdvance> {
    match stop_at_current_time(tx, account).await? {
        Some(stopped) => Ok(stopped),
        None if is_account(tx, account).await? => Err(Error::conflict("the account's clock is not being advanced")),
        None => Err(Error::no_such("account", account)),
    }
}

/// Increments the fencing token, as a claim does: the next advance may start before the previous worker notices the
/// stop. Computes `ahead_us` from the database's clock, because the clock of the operator's machine may be wrong.
async fn stop_at_current_time(tx: &mut PgConnection, account: AccountId) -> Result<Option<StoppedAdvance>> {
    let stopped = sqlx::query_as!(
        StoppedAdvance,
        r#"SELECT frozen_at AS "at!", target AS "target!" FROM test_clocks
           WHERE account_id = $1 AND target IS NOT NULL FOR NO KEY UPDATE"#,
        account.uuid(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    if stopped.is_some() {
        sqlx::query!(
            "UPDATE test_clocks
             SET ahead_us = greatest(0, extract(epoch FROM frozen_at - clock_timestamp()) * 1000000)::bigint, reached = frozen_at,
                 frozen_at = NULL, target = NULL, lease_until = NULL, next_push_at = NULL, fence = fence + 1
             WHERE account_id = $1",
            account.uuid(),
        )
        .execute(tx)
        .await?;
    }
    Ok(stopped)
}

async fn is_account(tx: &mut PgConnection, id: AccountId) -> Result<bool> {
    let query = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM accounts WHERE id = $1) AS "known!""#, id.uuid());
    Ok(query.fetch_one(tx).await?)
}

/// An advance that has not reached its target.
#[derive(Clone, Copy, Debug)]
pub struct RunningAdvance {
    pub account: AccountId,
    /// The clock's time.
    pub at: Timestamp,
    pub target: Timestamp,
}

/// Returns the running advances, at most `limit`.
///
/// # Errors
/// Database errors only.
pub async fn running(db: &PgPool, limit: i64) -> Result<Vec<RunningAdvance>> {
    Ok(sqlx::query_as!(
        RunningAdvance,
        r#"SELECT account_id AS account, frozen_at AS "at!", target AS "target!" FROM test_clocks
           WHERE target IS NOT NULL ORDER BY account_id LIMIT $1"#,
        limit,
    )
    .fetch_all(db)
    .await?)
}

/// Returns the running advances that no worker holds and that are due to be queued again, and postpones their next
/// push.
///
/// # Errors
/// Database errors only.
pub async fn take_due(db: &PgPool) -> Result<Vec<AccountId>> {
    Ok(sqlx::query_scalar!(
        "UPDATE test_clocks SET next_push_at = clock_timestamp() + make_interval(secs => $1)
         WHERE account_id = ANY (ARRAY(SELECT account_id FROM test_clocks
                              WHERE next_push_at <= (SELECT clock_timestamp())
                                AND (lease_until IS NULL OR lease_until < clock_timestamp())
                              ORDER BY next_push_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED))
         RETURNING account_id",
        PUSH_INTERVAL.as_secs_f64(),
        SWEEP_BATCH,
    )
    .fetch_all(db)
    .await?)
}

/// An advance claimed by this worker, until its lease ends.
#[derive(Clone, Copy, Debug)]
pub struct Advance {
    pub account: AccountId,
    /// The clock's time.
    pub frozen_at: Timestamp,
    pub target: Timestamp,
    fence: i64,
}

/// Claims an advance. Returns `None` if there is none or another worker holds it.
///
/// # Errors
/// Database errors only.
pub async fn claim(db: &PgPool, account: AccountId) -> Result<Option<Advance>> {
    let row = sqlx::query!(
        r#"UPDATE test_clocks SET fence = fence + 1, lease_until = clock_timestamp() + make_interval(secs => $2)
           WHERE account_id = $1 AND target IS NOT NULL AND (lease_until IS NULL OR lease_until < clock_timestamp())
           RETURNING frozen_at AS "frozen_at!", target AS "target!", fence"#,
        account.uuid(),
        LEASE.as_secs_f64(),
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Advance { account, frozen_at: row.frozen_at, target: row.target, fence: row.fence }))
}

impl Advance {
    /// Moves the clock forward to `to`, at most to its target, and renews the lease.
    ///
    /// # Errors
    /// [`Error::Conflict`] if this worker has lost the advance.
    pub async fn step(&mut self, db: &PgPool, to: Timestamp) -> Result<()> {
        self.frozen_at = sqlx::query_scalar!(
            r#"UPDATE test_clocks SET frozen_at = least(target, greatest(frozen_at, $3)),
                  lease_until = clock_timestamp() + make_interval(secs => $4)
           WHERE account_id = $1 AND fence = $2 AND target IS NOT NULL RETURNING frozen_at AS "frozen_at!""#,
            self.account.uuid(),
            self.fence,
            to,
            LEASE.as_secs_f64(),
        )
        .fetch_optional(db)
        .await?
        .ok_or_else(lease_lost)?;
        Ok(())
    }

    /// Ends the advance: the clock runs on from its target, or shows the real time, `now`, if that has passed the
    /// target.
    ///
    /// # Errors
    /// [`Error::Conflict`] if this worker has lost the advance.
    pub async fn finish(self, db: &PgPool, now: Timestamp) -> Result<()> {
        let result = sqlx::query!(
            "UPDATE test_clocks SET ahead_us = greatest(0, extract(epoch FROM target - $3::timestamptz) * 1000000)::bigint,
                reached = target, frozen_at = NULL, target = NULL, lease_until = NULL, next_push_at = NULL
         WHERE account_id = $1 AND fence = $2 AND target IS NOT NULL",
            self.account.uuid(),
            self.fence,
            now,
        )
        .execute(db)
        .await?;
        if result.rows_affected() == 1 { Ok(()) } else { Err(lease_lost()) }
    }

    /// Releases the lease, so that another worker can continue at once.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn release(self, db: &Db) -> Result<()> {
        sqlx::query!(
            "UPDATE test_clocks SET lease_until = NULL, next_push_at = clock_timestamp() + make_interval(secs => $3)
         WHERE account_id = $1 AND fence = $2 AND target IS NOT NULL",
            self.account.uuid(),
            self.fence,
            PUSH_INTERVAL.as_secs_f64(),
        )
        .execute(&**db)
        .await?;
        db.wake(queues::CLOCKS, [self.account.uuid()]);
        Ok(())
    }
}

fn lease_lost() -> Error {
    Error::conflict("the lease was lost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("an instant")
    }

    fn is_rejected(to: &str, now: &str) -> bool {
        match check_target(at(to), at(now)) {
            Ok(()) => false,
            Err(Error::Invalid { param, .. }) => param == "to",
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_clock_moves_forward_by_at_most_four_years() {
        let now = "2026-11-21T09:30:00Z";
        for (to, expected) in [
            ("2026-11-21T09:29:59.999999Z", true),
            ("2026-11-21T09:30:00Z", true),
            ("2026-11-21T09:30:00.000001Z", false),
            ("2030-11-21T09:30:00Z", false),
            ("2030-11-21T09:30:00.000001Z", true),
            ("0001-01-01T00:00:00Z", true),
            ("9999-12-30T21:59:59Z", true),
        ] {
            assert_eq!(is_rejected(to, now), expected, "{to}");
        }
    }

    #[test]
    fn clocks_stay_before_the_year_9000() {
        assert!(!is_rejected("8999-12-31T23:59:59Z", "8999-01-01T00:00:00Z"));
        assert!(is_rejected("9000-01-01T00:00:00Z", "8999-01-01T00:00:00Z"));
    }
}
