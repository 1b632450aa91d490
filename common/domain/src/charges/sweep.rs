//! The sweep: finds due operations in Postgres and hands each one out, moving its `next_push_at` forward, unless an
//! operator keeps it from the workers.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use foundation::db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, OperationId, ProviderAccountId};
use foundation::rule_enabled;

/// Maximum number of operations that one sweep enqueues.
pub const SWEEP_BATCH: usize = 500;
/// An operation that has been due for this long was missed by the sweep, which runs every second.
pub const OVERDUE: Duration = Duration::from_secs(30);

/// A due operation that the sweep enqueues for the workers.
#[derive(Debug)]
pub struct Due {
    pub id: OperationId,
    /// The request that created it.
    pub request_id: Option<String>,
    /// Whether no client waits for it. Background operations have their own queue.
    pub background: bool,
}

/// Returns up to `limit` operations that have been due for at least `overdue_by` (never pushed, abandoned by a crashed
/// worker, or unknown and due for a retry), all or only the background operations or the others. Moves their
/// `next_push_at` forward with backoff, so that a backlog is not pushed again at every tick.
///
/// # Errors
/// Database errors only.
pub async fn take_due(db: &PgPool, background: Option<bool>, overdue_by: Duration, limit: usize) -> Result<Vec<Due>> {
    if !rule_enabled!(Sweep) {
        return Ok(Vec::new());
    }
    // The delay doubles from 2 s to 30 s, so that an operation that no worker claims is not enqueued at every tick.
    // The clock is read in a subquery because it is volatile and could not bound an index scan.
    Ok(sqlx::query_as!(
        Due,
        "UPDATE operations SET pushes = pushes + 1,
                next_push_at = clock_timestamp() + make_interval(secs => least(30, 2 ^ least(pushes + 1, 5)))
         WHERE id = ANY (ARRAY(SELECT id FROM operations
                      WHERE next_push_at <= (SELECT clock_timestamp() - make_interval(secs => $3))
                        AND ($2::bool IS NULL OR background = $2)
                      ORDER BY next_push_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED))
         RETURNING id, request_id, background",
        i64::try_from(limit).unwrap_or(i64::MAX),
        background,
        overdue_by.as_secs_f64(),
    )
    .fetch_all(db)
    .await?)
}

/// Hands out an operation at the next sweep, by our reference at the provider, unless a worker has it. An operation whose
/// outcome is not known is then looked up.
///
/// # Errors
/// Database errors only.
pub async fn push_soon(db: &PgPool, account: ProviderAccountId, reference: &str) -> Result<()> {
    sqlx::query!(
        "UPDATE operations SET next_push_at = clock_timestamp()
         WHERE id = (SELECT id FROM operations WHERE provider_account_id = $1 AND reference = $2)
           AND state = 'unknown' AND next_push_at > clock_timestamp()
           AND (lease_until IS NULL OR lease_until < clock_timestamp())",
        account.uuid(),
        reference,
    )
    .execute(db)
    .await?;
    Ok(())
}

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
    or_conflict(tx, id, held, "the operation has ended or needs manual review, so it is not enqueued").await
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
