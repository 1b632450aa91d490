//! The clock of a process. It follows the database's time, which is measured every few seconds and extrapolated with
//! the monotonic clock, so that a wrong wall clock of a machine does not affect when money moves. Domain rules take a
//! timestamp as argument; only entry points hold a clock; leases use `clock_timestamp()` of the database.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use sqlx::{PgConnection, PgPool, Row};

use crate::faults;
use crate::rule_enabled;
use crate::time::Timestamp;

/// If the machine's clock differs from the database's by more than this, the process starts no work that moves money.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);
/// Measurements with a longer round trip are too inaccurate.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(500);
/// Executed with the simple protocol, which needs one round trip and no prepared statement.
const DATABASE_TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<Source>);

enum Source {
    Fixed(Timestamp),
    Process(&'static ProcessClock),
}

/// Shared by the whole process, because there is one database.
static PROCESS: LazyLock<ProcessClock> = LazyLock::new(ProcessClock::new);

thread_local! {
    /// The clock of the simulated process that this thread runs.
    static SIMULATED: Cell<Option<&'static ProcessClock>> = const { Cell::new(None) };
}

/// Gives this thread a process clock of its own: the simulation runs each process on one thread.
pub fn simulate_process() {
    SIMULATED.set(Some(Box::leak(Box::new(ProcessClock::new()))));
}

impl Clock {
    /// The clock of this process: the database's time once it has been measured, the machine's time before.
    pub fn system() -> Self {
        Self(Arc::new(Source::Process(SIMULATED.get().unwrap_or(&PROCESS))))
    }

    /// A fixed time, for tests.
    pub fn fixed(at: Timestamp) -> Self {
        Self(Arc::new(Source::Fixed(at)))
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Source::Fixed(at) => *at,
            Source::Process(process) => process.now(),
        }
    }

    /// Measures the database's time.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn synchronize(&self, db: &mut PgConnection) -> sqlx::Result<()> {
        let Source::Process(process) = &*self.0 else { return Ok(()) };
        let sent = Instant::now();
        let database_us: i64 = sqlx::raw_sql(DATABASE_TIME).fetch_one(db).await?.try_get(0)?;
        process.record(sent, Instant::now(), database_us);
        Ok(())
    }

    /// How many seconds the machine's clock is ahead of the database's; `None` before the first measurement.
    pub fn ahead_seconds(&self) -> Option<f64> {
        match &*self.0 {
            Source::Fixed(_) => Some(0.0),
            Source::Process(process) => process.ahead_us().map(|us| us as f64 / 1e6),
        }
    }

    /// Whether this process may start work that moves money. If the last measurement does not permit it, measures
    /// again, because the machine may have been suspended or its clock may have been set since.
    ///
    /// # Errors
    /// [`ClockError`] if the clocks differ by more than [`CLOCK_TOLERANCE`], or no measurement was possible.
    pub async fn verify(&self, db: &PgPool) -> Result<(), ClockError> {
        if self.check().is_err() {
            let measurement = async { self.synchronize(&mut *db.acquire().await?).await };
            if let Err(error) = measurement.await {
                tracing::debug!(%error, "the database's time could not be read");
            }
        }
        self.check()
    }

    /// As [`Self::verify`], but uses only the last measurement.
    ///
    /// # Errors
    /// [`ClockError`], as [`Self::verify`].
    pub fn check(&self) -> Result<(), ClockError> {
        match self.ahead_seconds() {
            _ if !rule_enabled!(DatabaseClock) => Ok(()),
            None => Err(ClockError::NotMeasured),
            Some(seconds) if seconds.abs() > CLOCK_TOLERANCE.as_secs_f64() => Err(ClockError::Wrong { seconds }),
            Some(_) => Ok(()),
        }
    }
}

/// Why a process starts no work that moves money.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ClockError {
    /// The clocks differ.
    #[error("this machine's clock differs from the database's by {seconds:+.1} s; no work that moves money is started")]
    Wrong {
        /// Positive if the machine's clock is ahead.
        seconds: f64,
    },
    /// There was no measurement yet.
    #[error("this machine's clock has not been compared with the database's yet")]
    NotMeasured,
}

/// The last measurement of the database's time, relative to the monotonic clock.
struct ProcessClock {
    started: Instant,
    /// The database's time at `started`, in microseconds since 1970.
    database_us: AtomicI64,
}

/// The value before the first measurement.
const NOT_MEASURED: i64 = i64::MIN;

impl ProcessClock {
    fn new() -> Self {
        Self { started: Instant::now(), database_us: AtomicI64::new(NOT_MEASURED) }
    }

    fn now(&self) -> Timestamp {
        let us = self.database_now_us().filter(|_| rule_enabled!(DatabaseClock)).unwrap_or_else(machine_us);
        Timestamp::from_microsecond(us)
    }

    fn database_now_us(&self) -> Option<i64> {
        match self.database_us.load(Ordering::Relaxed) {
            NOT_MEASURED => None,
            at_start => Some(at_start + microseconds(self.started.elapsed())),
        }
    }

    fn ahead_us(&self) -> Option<i64> {
        self.database_now_us().map(|database_us| machine_us() - database_us)
    }

    /// Assumes that the database read its time halfway between request and response.
    fn record(&self, sent: Instant, received: Instant, database_us: i64) {
        let round_trip = received - sent;
        if round_trip > MAX_ROUND_TRIP && self.database_us.load(Ordering::Relaxed) != NOT_MEASURED {
            return;
        }
        let middle = microseconds(sent.saturating_duration_since(self.started) + round_trip / 2);
        self.database_us.store(database_us - middle, Ordering::Relaxed);
    }
}

fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "the only place that reads the wall clock")]
fn machine_us() -> i64 {
    jiff::Timestamp::now().as_microsecond() + microseconds_of(faults::clock_offset_seconds())
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
    fn measurements_with_a_long_round_trip_are_ignored() {
        let clock = ProcessClock::new();
        let at = |ms| clock.started + Duration::from_millis(ms);
        assert_eq!(clock.ahead_us(), None);
        // The first measurement counts regardless of its round trip.
        clock.record(at(0), at(2_000), 1_000_000_000);
        assert_eq!(clock.database_us.load(Ordering::Relaxed), 999_000_000);
        clock.record(at(2_000), at(2_100), 1_001_000_000);
        assert_eq!(clock.database_us.load(Ordering::Relaxed), 998_950_000);
        clock.record(at(3_000), at(4_000), 5_000_000_000);
        assert_eq!(clock.database_us.load(Ordering::Relaxed), 998_950_000, "the round trip was too long");
    }

    #[test]
    fn the_clock_follows_the_database_and_not_the_machine() {
        let clock = ProcessClock::new();
        let year_2000 = 946_684_800_000_000;
        let now = Instant::now();
        clock.record(now, now, year_2000);
        let elapsed = clock.now().as_millisecond() - year_2000 / 1000;
        assert!((0..5_000).contains(&elapsed), "{elapsed} ms after the measurement");
        assert!(
            clock.ahead_us().expect("measured") > 20 * 365 * 24 * 3_600 * 1_000_000,
            "the machine is decades ahead"
        );
    }
}
