//! Waiting for a worker's word: a reply wakes, and Postgres says what happened. Replies may be lost, so Postgres is also read
//! without one: after 250 ms, 1 s, and then every 2 s.

use std::time::Duration;

use common::payments::{self, Payment, Status};
use queue::Waiter;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::app::App;

/// How long the API waits before it answers `processing`.
pub(crate) const PATIENCE: Duration = Duration::from_secs(25);
const LOOKS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
const THEN_EVERY: Duration = Duration::from_secs(2);

/// When to read the row again.
pub(crate) struct Waiting {
    waiter: Waiter,
    began: Instant,
    looks: usize,
}

impl Waiting {
    /// Begins to wait. Register the waiter before the push.
    pub(crate) fn new(waiter: Waiter) -> Self {
        Self { waiter, began: Instant::now(), looks: 0 }
    }

    /// Resolves with `true` when the row is worth reading, and with `false` when patience is at its end.
    pub(crate) async fn worth_a_look(&mut self) -> bool {
        let end = self.began + PATIENCE;
        if Instant::now() >= end {
            return false;
        }
        let look = match LOOKS.get(self.looks) {
            Some(after) => self.began + *after,
            None => Instant::now() + THEN_EVERY,
        };
        tokio::select! {
            woken = timeout_at(end, self.waiter.woken()) => return woken.is_ok(),
            () = sleep_until(look.min(end)) => {}
        }
        self.looks += 1;
        true
    }
}

/// The payment once its outcome is known, or as it stands when patience ends. The intent exists by now, so nothing that goes
/// wrong here may become an error.
pub(crate) async fn outcome(app: &App, mut waiting: Waiting, mut payment: Payment) -> Payment {
    while waiting.worth_a_look().await {
        match payments::retrieve(&app.db, payment.account_id, payment.id).await {
            Ok(read) => payment = read,
            Err(error) => tracing::warn!(%error, payment = %payment.id, "the payment could not be read; waiting on"),
        }
        if payment.status != Status::Processing {
            break;
        }
    }
    payment
}
