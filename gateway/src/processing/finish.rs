//! Finishing a transaction: its row, the parent's sums, limits, guards and receipts, in one database transaction. The
//! row's state decides: only the first caller finishes it, a later one gets the stored outcome.

use foundation::calendar::{Date, TimeZone};
use foundation::time::Timestamp;
use sqlx::{PgConnection, PgPool};

use super::Processor;
use super::outcome::Outcome;
use crate::failure::{Failure, Result};
use crate::id::{AccountId, TransactionId};
use crate::limits;
use crate::receipts::{self, MAX_CHILD_RECEIPTS};
use crate::transactions::{ReceiptRequest, State, TransactionKind};

/// The current state of a transaction.
#[derive(Clone, Debug)]
pub struct TransactionStatus {
    pub state: State,
    /// Empty for a success.
    pub reason: String,
}

impl Processor {
    /// Finishes a transaction of an account's request, as [`Self::finish`], which is in progress.
    ///
    /// # Errors
    /// [`Failure::Unknown`]: recovery finishes it.
    pub(super) async fn finish_request(
        &self,
        account: AccountId,
        id: TransactionId,
        outcome: &Outcome,
    ) -> Result<TransactionStatus> {
        let _permit = self.connections.acquire(account).await.map_err(|error| unresolved(id, &error))?;
        self.finish(id, State::InProgress, outcome).await.map_err(|error| unresolved(id, &error))
    }

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
        let transaction = lock_transaction(&mut tx, id).await?;
        if transaction.state != from {
            let reason = transaction.state.decline_reason(transaction.reason);
            return Ok(TransactionStatus { state: transaction.state, reason });
        }
        let approved = outcome.state == State::Approved;
        let settles_at = settles_at(transaction.kind, approved, &transaction.time_zone, now);
        write_outcome(&mut tx, id, outcome, &transaction, settles_at, now).await?;
        let mut has_receipt =
            approved && self.sends_receipts && (transaction.receipt_cardholder || transaction.receipt_merchant);
        if let Some(parent) = transaction.parent_id {
            let requested = finish_child(&mut tx, parent, &transaction, approved, settles_at, has_receipt).await?;
            has_receipt &= requested <= MAX_CHILD_RECEIPTS;
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
        if has_receipt {
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
        let (state, reason) = read_status(&self.db, id).await?;
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

/// A locked transaction, to be finished.
struct LockedTransaction {
    kind: TransactionKind,
    state: State,
    reason: Option<String>,
    amount: i64,
    currency: String,
    month: Option<Date>,
    fingerprint: Option<Vec<u8>>,
    account_id: AccountId,
    parent_id: Option<TransactionId>,
    time_zone: TimeZone,
    receipt_cardholder: bool,
    receipt_merchant: bool,
}

/// Locks a transaction, after its parent.
async fn lock_transaction(db: &mut PgConnection, id: TransactionId) -> Result<LockedTransaction, sqlx::Error> {
    sqlx::query!(
        "SELECT id FROM gateway.transactions
         WHERE id = (SELECT parent_id FROM gateway.transactions WHERE id = $1) FOR NO KEY UPDATE",
        id.uuid(),
    )
    .fetch_optional(&mut *db)
    .await?;
    sqlx::query_as!(
        LockedTransaction,
        r#"SELECT kind AS "kind: TransactionKind", state AS "state: State", reason, amount, currency, month, fingerprint,
                  receipt_cardholder, receipt_merchant,
                  account_id AS "account_id: AccountId", parent_id AS "parent_id: TransactionId",
                  (SELECT time_zone FROM gateway.accounts WHERE accounts.id = account_id) AS "time_zone!: TimeZone"
           FROM gateway.transactions WHERE id = $1 FOR NO KEY UPDATE"#,
        id.uuid(),
    )
    .fetch_one(db)
    .await
}

/// Writes the outcome of a transaction locked by [`lock_transaction`].
async fn write_outcome(
    db: &mut PgConnection,
    id: TransactionId,
    outcome: &Outcome,
    transaction: &LockedTransaction,
    settles_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let approved = outcome.state == State::Approved;
    let captured = if approved && transaction.kind == TransactionKind::Sale { transaction.amount } else { 0 };
    let holds = approved && transaction.kind == TransactionKind::Authorize;
    let expires_at = holds.then(|| now.plus(std::time::Duration::from_secs(7 * 24 * 3600)));
    sqlx::query!(
        "UPDATE gateway.transactions
         SET state = $2, reason = $3, auth_code = $4, avs = $5, cvv = COALESCE($6, cvv), captured = $7, settles_at = $8,
             lapses_at = $9, ended_at = $10, recover_at = NULL, number = NULL
         WHERE id = $1",
        id.uuid(),
        outcome.state as State,
        outcome.reason,
        outcome.auth_code,
        outcome.avs,
        outcome.cvv,
        captured,
        settles_at,
        expires_at,
        now,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Applies a child's outcome to its charge and releases the reservation. Returns how many receipts of children were
/// requested.
async fn finish_child(
    db: &mut PgConnection,
    parent: TransactionId,
    child: &LockedTransaction,
    approved: bool,
    settles_at: Option<Timestamp>,
    has_receipt: bool,
) -> Result<i32, sqlx::Error> {
    sqlx::query_scalar!(
        "UPDATE gateway.transactions
         SET captured = captured + CASE WHEN $2 = 'capture' AND $4 THEN $3 ELSE 0::bigint END,
             settles_at = COALESCE($5, settles_at),
             voided = voided OR ($2 = 'void' AND $4),
             changing = CASE WHEN $2 = 'refund' THEN changing END,
             refunding = refunding - CASE WHEN $2 = 'refund' THEN $3 ELSE 0::bigint END,
             refunded = refunded + CASE WHEN $2 = 'refund' AND $4 THEN $3 ELSE 0::bigint END,
             child_receipts = child_receipts + CASE WHEN $6 THEN 1 ELSE 0 END
         WHERE id = $1 RETURNING child_receipts",
        parent.uuid(),
        child.kind as TransactionKind,
        child.amount,
        approved,
        settles_at,
        has_receipt,
    )
    .fetch_one(db)
    .await
}

async fn read_status(db: &PgPool, id: TransactionId) -> Result<(State, Option<String>), sqlx::Error> {
    let row =
        sqlx::query!(r#"SELECT state AS "state: State", reason FROM gateway.transactions WHERE id = $1"#, id.uuid(),)
            .fetch_one(db)
            .await?;
    Ok((row.state, row.reason))
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
