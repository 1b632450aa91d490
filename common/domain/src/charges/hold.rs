//! Operations that an operator keeps from the workers.

use std::time::Duration;

use sqlx::PgConnection;

use foundation::db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, OperationId};

/// Delays the next handout of an operation by `delay`. It stays due, and a worker that holds its lease continues.
/// Returns its account.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if it has ended or needs manual review.
pub async fn hold(tx: &mut PgConnection, id: OperationId, delay: Duration) -> Result<AccountId> {
    let account = sqlx::query_scalar!(
        "UPDATE operations SET next_push_at = clock_timestamp() + make_interval(secs => $2)
         WHERE id = $1 AND next_push_at IS NOT NULL RETURNING account_id",
        id.uuid(),
        delay.as_secs_f64(),
    );
    let held = account.fetch_optional(&mut *tx).await?;
    or_conflict(tx, id, held, "the operation has ended or needs manual review, so it is not handed out").await
}

/// Stops processing an operation for good: its outcome becomes unknown and needs manual review. Used after a restore,
/// when the request may have been executed in the lost interval. Returns its account.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if it has ended, is leased by a worker, saves a card that no payment awaits, or
/// its payment has another operation of unknown outcome.
pub async fn require_manual_review(tx: &mut PgConnection, id: OperationId) -> Result<AccountId> {
    let account = sqlx::query_scalar!(
        "UPDATE operations SET state = 'unknown', next_push_at = NULL, lease_until = NULL,
                first_sent_at = coalesce(first_sent_at, created_at), last_sent_at = coalesce(last_sent_at, created_at)
         WHERE id = $1 AND finished_at IS NULL
           AND (kind <> 'store_card' OR EXISTS (
               SELECT FROM payment_methods m WHERE m.id = operations.payment_method_id AND m.awaits_operation_id IS NOT NULL))
           AND (lease_until IS NULL OR lease_until < clock_timestamp())
         RETURNING account_id",
        id.uuid(),
    );
    let account = match account.fetch_optional(&mut *tx).await {
        Err(error) if db::violated_constraint(&error) == Some("operations_one_in_flight") => {
            return Err(Error::conflict("another operation of the payment has an unknown outcome: resolve that first"));
        }
        account => account?,
    };
    let reason = "the operation has ended, is leased by a worker, or saves a card that no payment awaits";
    or_conflict(tx, id, account, reason).await
}

async fn or_conflict(
    tx: &mut PgConnection,
    id: OperationId,
    account: Option<AccountId>,
    reason: &'static str,
) -> Result<AccountId> {
    if let Some(account) = account {
        return Ok(account);
    }
    let found = sqlx::query_scalar!("SELECT id FROM operations WHERE id = $1", id.uuid()).fetch_optional(tx).await?;
    Err(found.map_or_else(|| Error::no_such("operation", id), |_| Error::conflict(reason)))
}
