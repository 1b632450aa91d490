//! What every request has at hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::clock::Clock;
use sqlx::PgPool;
use tokio_util::task::TaskTracker;

use crate::accounts::Vaulting;
use crate::acquirer::Acquirer;
use crate::failure::{Failure, Result};
use crate::http::pulse::Pulse;
use crate::http::rate_limits::RateLimits;
use crate::mail::Mailer;

/// Shared by all requests; cheap to clone.
#[derive(Clone)]
pub struct App {
    /// Where the schema `gateway` is.
    pub db: PgPool,
    /// Who moves the money.
    pub acquirer: Acquirer,
    /// What hashes and encrypts.
    pub vaulting: Vaulting,
    /// The time.
    pub clock: Clock,
    /// How the outside names this service, without a slash at the end.
    pub public_url: Arc<str>,
    /// Who sends receipts; without one none is made.
    pub mailer: Option<Mailer>,
    /// Limits to requests of browsers and to attempts that fail.
    pub rate_limits: Arc<RateLimits>,
    /// Requests under way. They go on when their caller hangs up, and the process waits for them.
    pub work: TaskTracker,
    /// Whether this process was stopped a while.
    pub pulse: Pulse,
}

/// From the head of a request to the commit of what it enters. The database ends a transaction that was left open for
/// [`OPEN_AT_MOST`]; a head may have lain unread for as long as a pause that the pulse lets pass, and behind another request
/// for a second. Nothing of a request comes into being later than all of these together, which is ten seconds.
const ENTERS_WITHIN: Duration = Duration::from_secs(5);
/// How long a transaction that enters something may lie open untouched.
pub const OPEN_AT_MOST: &str = "2s";
/// How long it may wait for another's lock.
pub const WAITS_AT_MOST: &str = "3s";

/// The time that a request has left to begin.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    begun: Instant,
    ends: Instant,
}

impl Lifetime {
    /// Of a request that has just come.
    pub fn begins() -> Self {
        let begun = Instant::now();
        Self { begun, ends: begun + ENTERS_WITHIN }
    }

    /// The same with no more than so much left from now on, if its caller wants that.
    pub fn at_most(self, left: Duration) -> Self {
        Self { ends: self.ends.min(Instant::now() + left), ..self }
    }

    /// Whether it is still time. Asked last before a commit.
    ///
    /// # Errors
    /// [`Failure::NotEntered`] once it is not.
    pub fn check(self) -> Result<()> {
        match Instant::now() < self.ends {
            true => Ok(()),
            false => Err(Failure::NotEntered("it could not be begun in time, and nothing was entered")),
        }
    }

    /// How long it has taken so far.
    pub fn elapsed(self) -> Duration {
        self.begun.elapsed()
    }
}
