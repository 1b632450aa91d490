//! Test clocks: the time of a test account, which can be advanced ahead of the real time but never set back.
//!
//! A clock is an offset to the real time, so it keeps running. While it is being advanced it is frozen and moves from
//! one due instant to the next. The worker that advances it holds a lease and sends its fencing token with every step
//! ([`engine::advance_clock`]).

mod store;
mod view;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

pub use view::TestClockView;

use foundation::db::Db;
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
    store::find(db, account, now).await
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
    let wait = store::create(db, account, cache_ttl).await?;
    // `None`: a concurrent request has just created the clock.
    Ok(wait.map_or(cache_ttl, Duration::from_secs_f64))
}

/// Starts advancing a clock to `to`, unless it already is being advanced to it. Returns the clock's state. A worker
/// completes the advance.
///
/// # Errors
/// [`Error::Conflict`] while the clock is being advanced to another instant.
pub async fn begin(db: &Db, account: AccountId, to: Timestamp, now: Timestamp) -> Result<TestClock> {
    if let Some(now) = store::begin(db, account, to, now, PUSH_INTERVAL).await? {
        db.wake(queues::CLOCKS, [account.uuid()]);
        return Ok(TestClock { now, target: Some(to) });
    }
    let clock = store::find(db, account, now).await?;
    match clock.target {
        Some(target) if target != to => Err(Error::conflict(format!("the clock is being advanced to {target}"))),
        // The same advance, running or just completed.
        Some(_) | None => Ok(clock),
    }
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
    match store::stop(tx, account).await? {
        Some(stopped) => Ok(stopped),
        None if store::is_account(tx, account).await? => {
            Err(Error::conflict("the account's clock is not being advanced"))
        }
        None => Err(Error::no_such("account", account)),
    }
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
    store::running(db, limit).await
}

/// Returns the running advances that no worker holds and that are due to be queued again, and postpones their next
/// push.
///
/// # Errors
/// Database errors only.
pub async fn take_due(db: &PgPool) -> Result<Vec<AccountId>> {
    store::take_due(db, PUSH_INTERVAL, SWEEP_BATCH).await
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
    store::claim(db, account, LEASE).await
}

impl Advance {
    /// Moves the clock forward to `to`, at most to its target, and renews the lease.
    ///
    /// # Errors
    /// [`Error::Conflict`] if this worker has lost the advance.
    pub async fn step(&mut self, db: &PgPool, to: Timestamp) -> Result<()> {
        self.frozen_at = store::step(db, self, to, LEASE).await?.ok_or_else(lease_lost)?;
        Ok(())
    }

    /// Ends the advance: the clock runs on from its target. `now` is the real time.
    ///
    /// # Errors
    /// [`Error::Conflict`] if this worker has lost the advance.
    pub async fn finish(self, db: &PgPool, now: Timestamp) -> Result<()> {
        if store::finish(db, &self, now).await? { Ok(()) } else { Err(lease_lost()) }
    }

    /// Releases the lease, so that another worker can continue at once.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn release(self, db: &Db) -> Result<()> {
        store::release(db, &self).await?;
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
