//! Operations that have not ended.

use crate::accounts::Mode;
use sqlx::PgPool;

use super::types::State;
use foundation::error::Result;
use foundation::id::{AccountId, OperationId};

/// An operation that has not ended and does not need manual review.
#[derive(Debug)]
pub struct Unfinished {
    pub id: OperationId,
    pub state: State,
    /// The payment or card. For a card that a payer's page saves, the payment, which it is charged for next.
    pub subject: uuid::Uuid,
}

/// Returns the operations of an account that will end without an operator: refunds that wait for an operation in manual
/// review are left out.
///
/// # Errors
/// Database errors only.
pub async fn unfinished(db: &PgPool, account: AccountId) -> Result<Vec<Unfinished>> {
    Ok(sqlx::query_as!(
        Unfinished,
        r#"SELECT id, state, coalesce(payment_id,
                      (SELECT m.saved_for_payment_id FROM payment_methods m WHERE m.id = o.payment_method_id),
                      payment_method_id) AS "subject!"
           FROM operations o WHERE account_id = $1 AND next_push_at IS NOT NULL AND NOT (state = 'ready' AND not_processed > 0)
             AND NOT (kind = 'refund' AND state = 'ready' AND EXISTS (
                 SELECT FROM operations b WHERE b.account_id = $1 AND b.payment_id = o.payment_id AND b.state::text = 'unknown'
                     AND b.next_push_at IS NULL))"#,
        account.uuid(),
    )
    .fetch_all(db)
    .await?)
}

/// The number of unfinished operations of test or live accounts in one state, and the age of the oldest.
#[derive(Debug)]
pub struct Backlog {
    pub mode: Mode,
    pub state: State,
    pub count: i64,
    /// Age in seconds of the oldest operation that does not need manual review and is unknown or not in the background.
    pub oldest_seconds: f64,
    /// Age in seconds of the oldest background operation. Many may be queued.
    pub oldest_in_background_seconds: f64,
    /// How many of them need manual review.
    pub in_manual_review: i64,
}

/// Returns the unfinished operations by mode and state. The cost depends on their number, not on the size of the table.
///
/// # Errors
/// Database errors only.
pub async fn backlog(db: &PgPool) -> Result<Vec<Backlog>> {
    Ok(sqlx::query_as!(
        Backlog,
        // A refund that waits for another refund of its payment with an unknown outcome is not late on its own.
        // Operations that the provider does not process are not late: the breaker reports them.
        r#"SELECT a.mode AS "mode: Mode", state, count(*) AS "count!",
                  coalesce(extract(epoch FROM clock_timestamp() - min(o.created_at) FILTER (
                      WHERE background AND next_push_at IS NOT NULL AND not_processed = 0)), 0)::float8 AS "oldest_in_background_seconds!",
                  coalesce(extract(epoch FROM clock_timestamp() - min(o.created_at) FILTER (WHERE next_push_at IS NOT NULL
                      AND not_processed = 0 AND (NOT background OR state = 'unknown') AND NOT (kind = 'refund' AND state = 'ready' AND EXISTS (
                          SELECT FROM operations b WHERE b.account_id = o.account_id AND b.payment_id = o.payment_id
                              AND b.state::text = 'unknown')))), 0)::float8 AS "oldest_seconds!",
                  count(*) FILTER (WHERE next_push_at IS NULL) AS "in_manual_review!"
           FROM operations o JOIN accounts a ON a.id = o.account_id
           WHERE next_push_at IS NOT NULL OR state = 'unknown' GROUP BY a.mode, state"#
    )
    .fetch_all(db)
    .await?)
}

/// Counts the background operations in progress, up to `limit`. Operations of unknown outcome are not counted.
///
/// # Errors
/// Database errors only.
pub async fn count_background(db: &PgPool, limit: i64) -> Result<i64> {
    Ok(sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM operations WHERE background AND finished_at IS NULL AND state <> 'unknown' AND not_processed = 0
               LIMIT $1) AS counted"#,
        limit
    )
    .fetch_one(db)
    .await?)
}
