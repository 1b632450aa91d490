//! State shared by all requests, and the deadline of one request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foundation::clock::Clock;
use sqlx::PgPool;
use tokio_util::task::TaskTracker;

use crate::accounts::CryptoKeys;
use crate::acquirer::Acquirer;
use crate::failure::{Failure, Result};
use crate::http::rate_limits::RateLimits;
use crate::http::stall_detector::StallDetector;
use crate::mail::Mailer;

/// Shared by all requests; cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The database with the schema `gateway`.
    pub db: PgPool,
    pub acquirer: Acquirer,
    /// The keys that hash and encrypt.
    pub crypto: CryptoKeys,
    pub clock: Clock,
    /// The public base URL of this service, without a trailing slash.
    pub public_url: Arc<str>,
    /// Sends receipts. Without it no receipts are created.
    pub mailer: Option<Mailer>,
    /// Limits on browser requests and on failed authentication attempts.
    pub rate_limits: Arc<RateLimits>,
    /// Requests in progress. They continue when the client disconnects, and shutdown waits for them.
    pub work: TaskTracker,
    /// Detects that this process was suspended.
    pub stall_detector: StallDetector,
}

/// From the request head to the commit that enters the transaction. On top of it come [`IDLE_TIMEOUT`], after which
/// Postgres aborts an open transaction, the longest pause that the stall detector tolerates while a request head waits
/// in a socket, and one second behind an earlier request on the same connection. Together that is ten seconds: no
/// request takes effect later.
const ENTRY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the transaction that enters a request may stay idle (`idle_in_transaction_session_timeout`).
pub const IDLE_TIMEOUT: &str = "2s";
/// How long it may wait for a lock (`lock_timeout`).
pub const LOCK_TIMEOUT: &str = "3s";

/// The time by which a request must be entered.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    started: Instant,
    expires: Instant,
}

impl Deadline {
    /// Starts with the arrival of a request.
    pub fn start() -> Self {
        let started = Instant::now();
        Self { started, expires: started + ENTRY_TIMEOUT }
    }

    /// The same deadline, at most `left` from now.
    pub fn capped_at(self, left: Duration) -> Self {
        Self { expires: self.expires.min(Instant::now() + left), ..self }
    }

    /// Checked last before a commit.
    ///
    /// # Errors
    /// [`Failure::NotEntered`] once the deadline has passed.
    pub fn check(self) -> Result<()> {
        match Instant::now() < self.expires {
            true => Ok(()),
            false => Err(Failure::NotEntered("the request could not be entered in time; nothing was entered")),
        }
    }

    /// Time since the request arrived.
    pub fn elapsed(self) -> Duration {
        self.started.elapsed()
    }
}
