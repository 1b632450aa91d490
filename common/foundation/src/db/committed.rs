//! Tracks the transactions of a request. Its handler may run again only if none has committed, and after all have ended.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use sqlx::{PgPool, Postgres};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::is_conflict;

#[cfg(test)]
mod tests;

/// The end of a transaction that takes longer waits for a dead connection.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

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

/// Rolls a transaction back in the background. Within a request the rollback is tracked: if the transaction were dropped
/// instead, nothing would show when the pool has rolled it back.
pub(super) fn roll_back(transaction: sqlx::Transaction<'static, Postgres>) {
    track(async {
        // After an error the connection is closed, which ends the transaction as well.
        let _ = transaction.rollback().await;
    });
}

/// Tracks the end of a transaction whose COMMIT was refused. Its connection has returned to the pool, so this waits for
/// every COMMIT that Postgres is executing.
pub(super) fn await_refused_commit(pool: &PgPool) {
    let pool = pool.clone();
    track(async move {
        // Without a connection the next run fails as well.
        let _ = commits_in_progress_ended(&pool).await;
    });
}

async fn commits_in_progress_ended(pool: &PgPool) -> sqlx::Result<()> {
    const IN_PROGRESS: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = current_user
                               AND state = 'active' AND query = 'COMMIT' AND query_start <= $1::text::timestamptz)";
    let now: String = sqlx::query_scalar("SELECT clock_timestamp()::text").fetch_one(pool).await?;
    while sqlx::query_scalar(IN_PROGRESS).bind(&now).fetch_one(pool).await? {
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Runs the end of a transaction in the background. Outside a request it is dropped.
fn track(end: impl Future<Output = ()> + Send + 'static) {
    // Without a runtime the process is ending, which closes its connections.
    let Ok(runtime) = Handle::try_current() else { return };
    let _ = TRANSACTIONS.try_with(|transactions| transactions.ends.borrow_mut().push(runtime.spawn(end)));
}
