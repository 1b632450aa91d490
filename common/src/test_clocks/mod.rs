//! Test clocks: the time of a test account, moved ahead of everyone else's and never back.
//!
//! A clock is an offset that ticks. While it is advanced it stands still, at one due instant after the other; who moves it
//! holds its lease, and carries its fencing token with every move ([`crate::flows::advance_clock`]).

mod store;
mod view;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

pub use view::TestClockView;

use crate::db::Db;
use crate::error::{Error, Result};
use crate::id::AccountId;
use crate::queues;
use crate::time::Timestamp;

/// How far a clock may be advanced at once: four years, farther than any plan's next charge. Whatever is due on the way is done, so this
/// bounds what one request can ask for.
pub const FARTHEST: Duration = Duration::from_secs(1_461 * 24 * 3_600);
/// No clock shows this year. What is reckoned from a clock's time must lie in the calendar, too.
const END_OF_CLOCKS: &str = "9000-01-01T00:00:00Z";
/// How long a claim of an advance holds. Longer than what is done between two moves of the clock.
const LEASE: Duration = Duration::from_secs(15);
/// How long until the sweep hands out an advance that nobody has taken.
const PUSH_AGAIN: Duration = Duration::from_secs(3);
/// Advances that one sweep hands out.
const SWEEP_BATCH: i64 = 100;

/// What a clock shows.
#[derive(Clone, Copy, Debug)]
pub struct TestClock {
    /// The account's time.
    pub now: Timestamp,
    /// Where it is being advanced to, if it is.
    pub target: Option<Timestamp>,
}

/// The clock of an account. One that was never advanced shows everyone's time, `now`.
///
/// # Errors
/// Only the database's.
pub async fn retrieve(db: &PgPool, account: AccountId, now: Timestamp) -> Result<TestClock> {
    store::find(db, account, now).await
}

/// Whether a clock that shows `now` may be advanced to an instant.
///
/// # Errors
/// 422 `to`.
pub fn check_target(to: Timestamp, now: Timestamp) -> Result<()> {
    let end = Timestamp::parse(END_OF_CLOCKS).expect("an instant");
    let wrong = if to <= now {
        format!("to must be later than the account's time, {now}")
    } else if to > now.plus(FARTHEST) {
        format!(
            "to must be at most four years (1,461 days) later than the account's time, {now}; advance again from there"
        )
    } else if to >= end {
        format!("to must be earlier than {end}")
    } else {
        return Ok(());
    };
    Err(Error::invalid("to", wrong))
}

/// Makes the clock of an account if there is none, and answers how long to wait until every process has heard of it, each of
/// which may believe for `believed_for` what it has read before.
///
/// # Errors
/// Only the database's.
pub async fn make(db: &PgPool, account: AccountId, believed_for: Duration) -> Result<Duration> {
    let wait = store::make(db, account, believed_for).await?;
    // Another request has made it at this moment.
    Ok(wait.map_or(believed_for, Duration::from_secs_f64))
}

/// Begins to advance a clock, or joins whoever is advancing it to the same instant; answers where it stands. From here on it
/// reaches `to` by itself.
///
/// # Errors
/// [`Error::Conflict`] while it is being advanced to another instant.
pub async fn begin(db: &Db, account: AccountId, to: Timestamp, now: Timestamp) -> Result<TestClock> {
    if let Some(now) = store::begin(db, account, to, now, PUSH_AGAIN).await? {
        db.wake(queues::CLOCKS, [account.uuid()]);
        return Ok(TestClock { now, target: Some(to) });
    }
    let clock = store::find(db, account, now).await?;
    match clock.target {
        Some(target) if target != to => Err(Error::conflict(format!("the clock is being advanced to {target}"))),
        // The same advance, under way or just through.
        Some(_) | None => Ok(clock),
    }
}

/// An advance that was ended before its target.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    /// Where the clock stood. It ticks on from there.
    pub at: Timestamp,
    /// Where it was to go.
    pub target: Timestamp,
}

/// Ends an advance where the clock stands. Its worker finds at the next step that it is no longer its own, and whoever waits for it
/// that there is none.
///
/// # Errors
/// [`Error::NotFound`] for an unknown account; [`Error::Conflict`] if its clock is not being advanced.
pub async fn stop(tx: &mut PgConnection, account: AccountId) -> Result<Stopped> {
    match store::stop(tx, account).await? {
        Some(stopped) => Ok(stopped),
        None if store::is_account(tx, account).await? => {
            Err(Error::conflict("the account's clock is not being advanced"))
        }
        None => Err(Error::no_such("account", account)),
    }
}

/// An account whose clock is being advanced.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay {
    /// Whose clock it is.
    pub account: AccountId,
    /// Where it stands.
    pub at: Timestamp,
    /// Where it is to go.
    pub target: Timestamp,
}

/// The advances that are under way, so many at most.
///
/// # Errors
/// Only the database's.
pub async fn under_way(db: &PgPool, limit: i64) -> Result<Vec<UnderWay>> {
    store::under_way(db, limit).await
}

/// Takes the advances that are under way and nobody's, and moves their next turn on.
///
/// # Errors
/// Only the database's.
pub async fn take_due(db: &PgPool) -> Result<Vec<AccountId>> {
    store::take_due(db, PUSH_AGAIN, SWEEP_BATCH).await
}

/// An advance that is ours until its lease ends.
#[derive(Clone, Copy, Debug)]
pub struct Advance {
    /// Whose clock it is.
    pub account: AccountId,
    /// Where it stands.
    pub frozen_at: Timestamp,
    /// Where it is to go.
    pub target: Timestamp,
    fence: i64,
}

/// Takes an advance. `None`: there is none, or it is another worker's.
///
/// # Errors
/// Only the database's.
pub async fn claim(db: &PgPool, account: AccountId) -> Result<Option<Advance>> {
    store::claim(db, account, LEASE).await
}

impl Advance {
    /// Moves the clock on, never back, and begins the lease anew.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the advance is no longer ours.
    pub async fn step(&mut self, db: &PgPool, to: Timestamp) -> Result<()> {
        self.frozen_at = store::step(db, self, to, LEASE).await?.ok_or_else(lost)?;
        Ok(())
    }

    /// The clock has reached its target, and ticks on from there. `now` is everyone's time.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the advance is no longer ours.
    pub async fn finish(self, db: &PgPool, now: Timestamp) -> Result<()> {
        if store::finish(db, &self, now).await? { Ok(()) } else { Err(lost()) }
    }

    /// Gives the advance back, for whoever is next.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn release(self, db: &Db) -> Result<()> {
        store::release(db, &self).await?;
        db.wake(queues::CLOCKS, [self.account.uuid()]);
        Ok(())
    }
}

fn lost() -> Error {
    Error::conflict("the lease was lost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("an instant")
    }

    fn refused(to: &str, now: &str) -> bool {
        match check_target(at(to), at(now)) {
            Ok(()) => false,
            Err(Error::Invalid { param, .. }) => param == "to",
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_clock_goes_ahead_and_four_years_at_most() {
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
            assert_eq!(refused(to, now), expected, "{to}");
        }
    }

    #[test]
    fn no_clock_comes_near_the_end_of_the_calendar() {
        assert!(!refused("8999-12-31T23:59:59Z", "8999-01-01T00:00:00Z"));
        assert!(refused("9000-01-01T00:00:00Z", "8999-01-01T00:00:00Z"));
    }
}
