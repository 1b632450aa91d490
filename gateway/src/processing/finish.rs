//! Finishing a transaction: its row, the parent's sums, limits, guards and receipts, in one database transaction. The
//! row's state decides: only the first caller finishes it, a later one gets the stored outcome.

use foundation::calendar::TimeZone;
use foundation::time::Timestamp;

use super::outcome::Outcome;
use super::{Processor, store};
use crate::failure::Failure;
use crate::id::TransactionId;
use crate::transactions::{ReceiptRequest, State, TransactionKind};
use crate::{limits, receipts};

/// The current state of a transaction.
#[derive(Clone, Debug)]
pub struct TransactionStatus {
    pub state: State,
    /// Empty for a success.
    pub reason: String,
}

impl Processor {
    /// Finishes a transaction that is in state `from`, and returns its status. If another caller has finished it
    /// already, that outcome is kept.
    ///
    /// # Errors
    /// Database errors. A transaction in progress then stays so, and recovery finishes it.
    pub(super) async fn finish(
        &self,
        id: TransactionId,
        from: State,
        outcome: &Outcome,
    ) -> Result<TransactionStatus, sqlx::Error> {
        let now = self.clock.now();
        let mut tx = foundation::db::begin(&self.db).await?;
        let transaction = store::lock_transaction(&mut tx, id).await?;
        if transaction.state != from {
            let reason = transaction.state.decline_reason(transaction.reason);
            return Ok(TransactionStatus { state: transaction.state, reason });
        }
        let approved = outcome.state == State::Approved;
        let settles_at = settles_at(transaction.kind, approved, &transaction.time_zone, now);
        store::finish(&mut tx, id, outcome, &transaction, settles_at, now).await?;
        if let Some(parent) = transaction.parent_id {
            store::finish_child(&mut tx, parent, &transaction, approved, settles_at).await?;
        }
        if let Some(fingerprint) = &transaction.fingerprint {
            match approved {
                true => limits::extend_guard(&mut tx, transaction.account_id, fingerprint, id, now).await?,
                false => {
                    let volume =
                        transaction.month.map(|month| (month, transaction.currency.as_str(), transaction.amount));
                    limits::release(&mut tx, transaction.account_id, id, volume, fingerprint).await?;
                }
            }
        }
        if approved && self.sends_receipts {
            let request =
                ReceiptRequest { cardholder: transaction.receipt_cardholder, merchant: transaction.receipt_merchant };
            receipts::enqueue(&mut tx, id, request).await?;
        }
        tx.commit().await?;
        let (kind, state) = (transaction.kind.name(), state_name(outcome.state));
        metrics::counter!("gateway_transactions_total", "type" => kind, "state" => state).increment(1);
        Ok(TransactionStatus { state: outcome.state, reason: outcome.reason.clone().unwrap_or_default() })
    }

    /// The current status of a transaction.
    pub(super) async fn status(&self, id: TransactionId) -> Result<TransactionStatus, sqlx::Error> {
        let (state, reason) = store::status(&self.db, id).await?;
        Ok(TransactionStatus { state, reason: state.decline_reason(reason) })
    }
}

/// The response for a transaction that was entered and whose outcome is unknown.
pub(super) fn unresolved(id: TransactionId, error: &dyn std::error::Error) -> Failure {
    tracing::error!(transaction = %id, %error, "the outcome of a transaction is unknown; recovery will resolve it");
    Failure::Unknown
}

/// Captured amounts settle at the end of the account's day.
fn settles_at(kind: TransactionKind, approved: bool, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    let settles = match kind {
        TransactionKind::Sale | TransactionKind::Capture | TransactionKind::Credit => approved,
        TransactionKind::Authorize | TransactionKind::Void | TransactionKind::Refund => false,
    };
    settles.then(|| zone.end_of(zone.date_at(now)))
}

/// Registers the counters at 0, so that the first increment is visible.
pub fn register_metrics() {
    for kind in TransactionKind::ALL {
        for state in [State::Approved, State::Declined, State::Failed] {
            metrics::counter!("gateway_transactions_total", "type" => kind.name(), "state" => state_name(state))
                .increment(0);
        }
    }
    metrics::counter!("gateway_recovered_total").increment(0);
    metrics::counter!("gateway_recovery_failures_total").increment(0);
    let _ = metrics::histogram!("gateway_acquirer_seconds");
}

const fn state_name(state: State) -> &'static str {
    match state {
        State::Challenged => "challenged",
        State::InProgress => "in_progress",
        State::Approved => "approved",
        State::Declined => "declined",
        State::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Around the end of a day of 23 hours in New York.
    #[test]
    fn what_moves_money_settles_when_the_day_ends() {
        let at = |text| Timestamp::parse(text).expect("an instant");
        let zone: TimeZone = "America/New_York".parse().expect("a zone");
        for kind in TransactionKind::ALL {
            let settles = ["SALE", "CAPTURE", "CREDIT"].contains(&kind.name());
            for (now, end) in [
                ("2026-03-08T04:59:59.999Z", "2026-03-08T05:00:00Z"),
                ("2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"),
                ("2026-03-09T03:59:59.999Z", "2026-03-09T04:00:00Z"),
                ("2026-03-09T04:00:00Z", "2026-03-10T04:00:00Z"),
            ] {
                assert_eq!(
                    settles_at(kind, true, &zone, at(now)),
                    settles.then(|| at(end)),
                    "{} at {now}",
                    kind.name()
                );
                assert_eq!(settles_at(kind, false, &zone, at(now)), None, "a declined {}", kind.name());
            }
        }
    }
}
