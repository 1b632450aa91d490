//! Tracks the transactions of a request. Its handler may run again only if none has committed, and after all have ended.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Postgres};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::is_conflict;

#[cfg(test)]
mod tests;

/// The end of a transaction that takes longer waits for a dead connection.
const END_TIMEOUT: Duration = Duration::from_secs(5);

tokio::task_local! {
    static TRANSACTIONS: Transactions;
}

/// The transactions of a request.
#[derive(Debug, Default)]
pub struct Transactions {
    committed: Cell<bool>,
    ends: RefCell<Vec<JoinHandle<()>>>,
}

impl Transactions {
    /// Whether the request has sent a COMMIT that was not refused. A statement outside a transaction commits implicitly
    /// and is not tracked: it is the last write of its command, so its error means that nothing was written.
    pub const fn committed(&self) -> bool {
        self.committed.get()
    }

    /// Waits until the transactions that were not committed have ended. Postgres reports an error before it releases the
    /// locks of the transaction, and for `SKIP LOCKED` a row that is still locked does not exist.
    pub async fn ended(self) {
        for end in self.ends.into_inner() {
            let _ = timeout(END_TIMEOUT, end).await;
        }
    }
}

/// Runs `work` and returns what became of its transactions.
pub async fn watch_transactions<T>(work: impl Future<Output = T>) -> (T, Transactions) {
    let tracked = async {
        let output = work.await;
        let end = |transactions: &Transactions| Transactions {
            committed: transactions.committed.clone(),
            ends: transactions.ends.take().into(),
        };
        (output, TRANSACTIONS.with(end))
    };
    TRANSACTIONS.scope(Transactions::default(), tracked).await
}

/// Records the result of a COMMIT. A COMMIT without a response may have taken effect.
pub fn note_commit<T>(result: &sqlx::Result<T>) {
    if result.as_ref().err().is_none_or(|error| !is_conflict(error)) {
        // Outside a request there is nothing to track.
        let _ = TRANSACTIONS.try_with(|transactions| transactions.committed.set(true));
    }
}

/// Waits in the background until a connection has executed the ROLLBACK that was queued on it. Only within a request:
/// elsewhere the pool does the same when the connection returns to it, but nothing shows when.
pub(super) fn await_rollback(mut connection: PoolConnection<Postgres>) {
    // Without a runtime the process is ending, which closes its connections.
    let Ok(runtime) = Handle::try_current() else { return };
    let _ = TRANSACTIONS.try_with(|transactions| {
        // After an error the connection is closed, which ends the transaction as well.
        let end = runtime.spawn(async move { drop(connection.ping().await) });
        transactions.ends.borrow_mut().push(end);
    });
}
