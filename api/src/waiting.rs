//! Waiting for an outcome. A worker's reply only wakes the request; the outcome is read from Postgres. Replies may be
//! lost, so Postgres is also polled: after 250 ms, after 1 s, and then every 2 s.

use std::time::Duration;

use domain::idempotency::WAIT;
use domain::payments::{Payment, Status};
use queue::Waiter;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::app::App;

const POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
const LATER_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Decides when the row is read again.
pub(crate) struct Waiting {
    waiter: Waiter,
    began: Instant,
    polls: usize,
}

impl Waiting {
    /// Starts the timeout. Register the waiter before queueing the work, or a fast reply is missed.
    pub(crate) fn new(waiter: Waiter) -> Self {
        Self { waiter, began: Instant::now(), polls: 0 }
    }

    /// Resolves to `true` when the row should be read again, and to `false` at the timeout.
    pub(crate) async fn next_poll(&mut self) -> bool {
        let end = self.began + WAIT;
        if Instant::now() >= end {
            return false;
        }
        let next = match POLL_INTERVALS.get(self.polls) {
            Some(after) => self.began + *after,
            None => Instant::now() + LATER_POLL_INTERVAL,
        };
        tokio::select! {
            notified = timeout_at(end, self.waiter.notified()) => return notified.is_ok(),
            () = sleep_until(next.min(end)) => {}
        }
        self.polls += 1;
        true
    }
}

/// Waits for the outcome; returns the payment, still `processing` at the timeout. The payment is already committed, so
/// a failed read is logged and never becomes an error response.
pub(crate) async fn outcome(app: &App, mut waiting: Waiting, mut payment: Payment) -> Payment {
    while waiting.next_poll().await {
        match app.payments.retrieve(payment.account_id, payment.id).await {
            Ok(read) => payment = read,
            Err(error) => tracing::warn!(%error, payment = %payment.id, "the payment could not be read; retrying"),
        }
        if payment.status != Status::Processing {
            break;
        }
    }
    payment
}
