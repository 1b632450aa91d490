//! The clock of a process. It shows the time of the database: measured every few seconds, and carried on in between by the
//! monotonic clock, so that no clock of a machine decides when money moves. Rules take an instant; only edges hold a clock;
//! leases go by `clock_timestamp()`.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use sqlx::{PgConnection, PgPool, Row};

use crate::proof::{self, Rule};
use crate::time::Timestamp;

/// A process whose machine's clock is further off than this starts no work that moves money.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);
/// A measurement that took longer says too little.
const LONGEST_ROUND_TRIP: Duration = Duration::from_millis(500);
/// By one round trip: the simple protocol prepares nothing.
const DATABASE_TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// Tells the time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<Source>);

enum Source {
    Fixed(Timestamp),
    Process(&'static ProcessClock),
}

/// What this process knows of the time. There is one, because there is one database.
static PROCESS: LazyLock<ProcessClock> = LazyLock::new(ProcessClock::new);

impl Clock {
    /// The clock of this process: the database's time once that has been measured, the machine's until then.
    pub fn system() -> Self {
        Self(Arc::new(Source::Process(&PROCESS)))
    }

    /// A clock that stands still, for tests of rules.
    pub fn fixed(at: Timestamp) -> Self {
        Self(Arc::new(Source::Fixed(at)))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Source::Fixed(at) => *at,
            Source::Process(process) => process.now(),
        }
    }

    /// Measures the database's time.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn synchronize(&self, db: &mut PgConnection) -> sqlx::Result<()> {
        let Source::Process(process) = &*self.0 else { return Ok(()) };
        let asked = Instant::now();
        let theirs: i64 = sqlx::raw_sql(DATABASE_TIME).fetch_one(db).await?.try_get(0)?;
        process.measured(asked, Instant::now(), theirs);
        Ok(())
    }

    /// By how many seconds this machine's clock is ahead of the database's; none before the first measurement.
    pub fn ahead_seconds(&self) -> Option<f64> {
        match &*self.0 {
            Source::Fixed(_) => Some(0.0),
            Source::Process(process) => process.ahead_us().map(|us| us as f64 / 1e6),
        }
    }

    /// Whether this process may start work that moves money. Asks the database only where it seems that it may not: the machine
    /// may have slept, or its clock may have been set.
    ///
    /// # Errors
    /// [`ClockError`] if the two clocks differ by more than [`CLOCK_TOLERANCE`], or the database could not be asked.
    pub async fn verify(&self, db: &PgPool) -> Result<(), ClockError> {
        if self.check().is_err() {
            let measured = async { self.synchronize(&mut *db.acquire().await?).await };
            if let Err(error) = measured.await {
                tracing::debug!(%error, "the database's time could not be read");
            }
        }
        self.check()
    }

    /// The same by the last measurement alone.
    ///
    /// # Errors
    /// [`ClockError`], as [`Self::verify`].
    pub fn check(&self) -> Result<(), ClockError> {
        match self.ahead_seconds() {
            _ if !proof::holds(Rule::DatabaseClock) => Ok(()),
            None => Err(ClockError::NotMeasured),
            Some(seconds) if seconds.abs() > CLOCK_TOLERANCE.as_secs_f64() => Err(ClockError::Wrong { seconds }),
            Some(_) => Ok(()),
        }
    }
}

/// Why a process starts no work that moves money.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ClockError {
    /// The two clocks differ. Seconds; positive if the machine's is ahead.
    #[error(
        "the clock of this machine differs from the database's by {seconds:+.1} s: no work that moves money is started"
    )]
    Wrong {
        /// By how much.
        seconds: f64,
    },
    /// Nothing is known yet.
    #[error("the clock of this machine was not compared with the database's yet")]
    NotMeasured,
}

/// The database's time as it was measured last, relative to the monotonic clock.
struct ProcessClock {
    started: Instant,
    /// The database's time at `started`, in microseconds since 1970.
    database_us: AtomicI64,
}

/// No time of a database.
const NOT_MEASURED: i64 = i64::MIN;

impl ProcessClock {
    fn new() -> Self {
        Self { started: Instant::now(), database_us: AtomicI64::new(NOT_MEASURED) }
    }

    fn now(&self) -> Timestamp {
        let us = self.database_now_us().filter(|_| proof::holds(Rule::DatabaseClock)).unwrap_or_else(machine_us);
        Timestamp::from_microsecond(us)
    }

    fn database_now_us(&self) -> Option<i64> {
        match self.database_us.load(Ordering::Relaxed) {
            NOT_MEASURED => None,
            at_start => Some(at_start + microseconds(self.started.elapsed())),
        }
    }

    fn ahead_us(&self) -> Option<i64> {
        self.database_now_us().map(|theirs| machine_us() - theirs)
    }

    /// The database's time was read about halfway between the question and its answer.
    fn measured(&self, asked: Instant, answered: Instant, theirs: i64) {
        let round_trip = answered - asked;
        if round_trip > LONGEST_ROUND_TRIP && self.database_us.load(Ordering::Relaxed) != NOT_MEASURED {
            return;
        }
        let middle = microseconds(asked.saturating_duration_since(self.started) + round_trip / 2);
        self.database_us.store(theirs - middle, Ordering::Relaxed);
    }
}

fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
fn machine_us() -> i64 {
    jiff::Timestamp::now().as_microsecond() + microseconds_of(proof::clock_offset_seconds())
}

fn microseconds_of(seconds: f64) -> i64 {
    (seconds * 1e6) as i64
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_round_trip_is_no_difference() {
        let clock = ProcessClock::new();
        let at = |ms| clock.started + Duration::from_millis(ms);
        assert_eq!(clock.ahead_us(), None);
        // The first measurement counts whatever it took: nothing better is known.
        clock.measured(at(0), at(2_000), 1_000_000_000);
        assert_eq!(clock.database_us.load(Ordering::Relaxed), 999_000_000);
        clock.measured(at(2_000), at(2_100), 1_001_000_000);
        assert_eq!(clock.database_us.load(Ordering::Relaxed), 998_950_000);
        clock.measured(at(3_000), at(4_000), 5_000_000_000);
        assert_eq!(clock.database_us.load(Ordering::Relaxed), 998_950_000, "too long ago to be believed");
    }

    #[test]
    fn the_time_follows_the_database_and_not_the_machine() {
        let clock = ProcessClock::new();
        let year_2000 = 946_684_800_000_000;
        let now = Instant::now();
        clock.measured(now, now, year_2000);
        let shown = clock.now().as_millisecond() - year_2000 / 1000;
        assert!((0..5_000).contains(&shown), "{shown} ms after the measurement");
        assert!(
            clock.ahead_us().expect("measured") > 20 * 365 * 24 * 3_600 * 1_000_000,
            "the machine is decades ahead"
        );
    }
}
