//! Tracks whether a request has committed anything. Its handler may be retried only before that.

use std::cell::Cell;

use sqlx::{Postgres, Transaction};

use super::is_conflict;

tokio::task_local! {
    static COMMITTED: Cell<bool>;
}

/// Runs `work`, and returns whether it has sent a COMMIT that was not refused. A statement outside a transaction
/// commits implicitly and is not tracked: it is the last write of its command, so its error means that nothing was
/// written.
pub async fn watch_commits<T>(work: impl Future<Output = T>) -> (T, bool) {
    let tracked = async {
        let output = work.await;
        (output, COMMITTED.with(Cell::get))
    };
    COMMITTED.scope(Cell::new(false), tracked).await
}

/// Records the result of a COMMIT. A COMMIT without a response may have taken effect.
pub fn note_commit<T>(result: &sqlx::Result<T>) {
    if result.as_ref().err().is_none_or(|error| !is_conflict(error)) {
        // Outside a request there is nothing to track.
        let _ = COMMITTED.try_with(|committed| committed.set(true));
    }
}

/// Commits a transaction without wake-ups.
///
/// # Errors
/// The database's.
pub async fn commit(tx: Transaction<'_, Postgres>) -> sqlx::Result<()> {
    let result = tx.commit().await;
    note_commit(&result);
    result
}
