//! The sweep: whatever is due is found in Postgres, and taken by moving its next turn on.

use std::time::Duration;

use sqlx::PgPool;

use super::store;
use crate::error::Result;
use crate::id::OperationId;
use crate::proof::{self, Rule};

/// Most operations handed out by one sweep.
pub const SWEEP_BATCH: i64 = 500;
/// What has been due for so long is swept by nobody: a sweep, once a second, moves the next turn on.
pub const OVERDUE: Duration = Duration::from_secs(30);

/// An operation that the sweep hands out.
#[derive(Debug)]
pub struct Due {
    /// The operation.
    pub id: OperationId,
    /// The request that caused it.
    pub request_id: Option<String>,
    /// Whether nobody waits for it: it has a queue of its own.
    pub background: bool,
}

/// Takes what is due — never pushed, abandoned by a dead worker, or unknown and to be asked again — and moves its next
/// turn on with backoff, so that a backlog is not pushed again at every tick.
///
/// # Errors
/// Only the database's.
pub async fn take_due(db: &PgPool) -> Result<Vec<Due>> {
    if !proof::holds(Rule::Sweep) {
        return Ok(Vec::new());
    }
    store::take_due(db, SWEEP_BATCH).await
}

/// Takes, in the same way, what has been due for `late`, so many at most, of those that nobody waits for or of the others.
///
/// # Errors
/// Only the database's.
pub async fn take_due_of(db: &PgPool, background: bool, late: Duration, most: usize) -> Result<Vec<Due>> {
    if !proof::holds(Rule::Sweep) {
        return Ok(Vec::new());
    }
    store::take_due_of(db, background, late, i64::try_from(most).unwrap_or(SWEEP_BATCH)).await
}

/// How many operations that nobody waits for are on their way, counted up to `most`. Unknown ones are not.
///
/// # Errors
/// Only the database's.
pub async fn in_background(db: &PgPool, most: i64) -> Result<i64> {
    store::in_background(db, most).await
}
