//! The deadline of one request, and the timeouts of the transaction that enters it.

use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};

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
            false => Err(Failure::NotEntered("the request could not be entered in time")),
        }
    }

    /// Time since the request arrived.
    pub fn elapsed(self) -> Duration {
        self.started.elapsed()
    }
}
