//! Whether a request has committed anything: only until then may its handler be run again.

use std::cell::Cell;

use sqlx::{Postgres, Transaction};

use super::is_conflict;

tokio::task_local! {
    static COMMITTED: Cell<bool>;
}

/// Runs `work`, and says whether it has sent a COMMIT that was not refused. A statement outside of a transaction commits by itself
/// and is not seen here: it is the last that its command writes, so an error of it says that nothing was written.
pub async fn watch_commits<T>(work: impl Future<Output = T>) -> (T, bool) {
    let watched = async {
        let done = work.await;
        (done, COMMITTED.with(Cell::get))
    };
    COMMITTED.scope(Cell::new(false), watched).await
}

/// Notes the answer to a COMMIT. One without an answer may have taken effect.
pub(crate) fn note_commit<T>(answer: &sqlx::Result<T>) {
    if answer.as_ref().err().is_none_or(|error| !is_conflict(error)) {
        // Without a request there is nobody to be told.
        let _ = COMMITTED.try_with(|committed| committed.set(true));
    }
}

/// Commits a transaction that wakes nobody.
///
/// # Errors
/// The database's.
pub(crate) async fn commit(tx: Transaction<'_, Postgres>) -> sqlx::Result<()> {
    let answer = tx.commit().await;
    note_commit(&answer);
    answer
}
