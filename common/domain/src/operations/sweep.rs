//! The sweep: finds due operations in Postgres and hands each one out, moving its `next_push_at` forward.

use std::time::Duration;

use sqlx::PgPool;

use super::store;
use foundation::error::Result;
use foundation::id::OperationId;
use foundation::proof::{self, Rule};

/// Maximum number of operations that one sweep hands out.
pub const SWEEP_BATCH: i64 = 500;
/// An operation that has been due for this long was missed by the sweep, which runs every second.
pub const OVERDUE: Duration = Duration::from_secs(30);

/// A due operation that the sweep hands out to the workers.
#[derive(Debug)]
pub struct Due {
    pub id: OperationId,
    /// The request that created it.
    pub request_id: Option<String>,
    /// Whether no client waits for it. Background operations have their own queue.
    pub background: bool,
}

/// Returns the due operations (never pushed, abandoned by a crashed worker, or unknown and due for a retry) and moves
/// their `next_push_at` forward with backoff, so that a backlog is not pushed again at every tick.
///
/// # Errors
/// Database errors only.
pub async fn take_due(db: &PgPool) -> Result<Vec<Due>> {
    if !proof::holds(Rule::Sweep) {
        return Ok(Vec::new());
    }
    store::take_due(db, SWEEP_BATCH).await
}

/// Like [`take_due`], for up to `limit` operations that have been due for at least `overdue_by`, either background
/// operations or the others.
///
/// # Errors
/// Database errors only.
pub async fn take_overdue(db: &PgPool, background: bool, overdue_by: Duration, limit: usize) -> Result<Vec<Due>> {
    if !proof::holds(Rule::Sweep) {
        return Ok(Vec::new());
    }
    store::take_overdue(db, background, overdue_by, i64::try_from(limit).unwrap_or(SWEEP_BATCH)).await
}

/// Counts the background operations in progress, up to `limit`. Operations of unknown outcome are not counted.
///
/// # Errors
/// Database errors only.
pub async fn count_background(db: &PgPool, limit: i64) -> Result<i64> {
    store::count_background(db, limit).await
}
