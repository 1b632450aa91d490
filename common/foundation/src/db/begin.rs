//! Begins transactions so that dropping the future is safe.
//!
//! sqlx 0.9.0 loses track of a `BEGIN` whose future is dropped before the response (sqlx issue 4393, fixed after that
//! version). The connection returns to the pool inside an open transaction: the next caller's writes are acknowledged
//! and then lost. Request futures are dropped whenever a client disconnects, so every transaction on a pool is begun
//! here; clippy.toml disallows the alternatives.

use std::pin::Pin;
use std::task::{Context, Poll};

use sqlx::{PgPool, SqlStr};
use tokio::runtime::Handle;

use super::transaction::Transaction;

const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The statements that read lists are shared by all combinations of filters. Only a plan for the values at hand uses the
/// index of each filter; it may sort the few rows that a range of amounts or a subscription selects.
const FILTERED_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_sort = on";

type BeginResult = Result<Transaction, sqlx::Error>;
type BeginFuture = Pin<Box<dyn Future<Output = BeginResult> + Send>>;

/// Begins a transaction.
///
/// # Errors
/// The database's, or no connection was available in time.
pub async fn begin(pool: &PgPool) -> Result<Transaction, sqlx::Error> {
    run_to_completion(pool, None).await
}

/// Begins a read-only transaction whose statements all see the same snapshot and take no row locks.
///
/// # Errors
/// As [`begin`].
pub async fn snapshot(pool: &PgPool) -> Result<Transaction, sqlx::Error> {
    run_to_completion(pool, Some(SqlStr::from_static(SNAPSHOT))).await
}

/// As [`snapshot`], for statements that are planned anew for the values of their filters.
///
/// # Errors
/// As [`begin`].
pub async fn filtered_snapshot(pool: &PgPool) -> Result<Transaction, sqlx::Error> {
    run_to_completion(pool, Some(SqlStr::from_static(FILTERED_SNAPSHOT))).await
}

async fn run_to_completion(pool: &PgPool, statement: Option<SqlStr>) -> Result<Transaction, sqlx::Error> {
    RunToCompletion(Some(Box::pin(Transaction::begin(pool.acquire().await?, statement)))).await
}

/// A future that continues in the background if it is dropped before completion. The resulting transaction is then
/// dropped, which rolls it back.
struct RunToCompletion(Option<BeginFuture>);

impl Future for RunToCompletion {
    type Output = BeginResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<BeginResult> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let result = future.as_mut().poll(context);
        if result.is_ready() {
            self.0 = None;
        }
        result
    }
}

impl Drop for RunToCompletion {
    fn drop(&mut self) {
        // Without a runtime the process is ending, which closes its connections.
        if let (Some(rest), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Connection as _;

    use super::*;
    use crate::crypto::Secret;

    #[tokio::test]
    async fn writes_after_an_abandoned_begin_are_committed() {
        let database = testkit::Database::create().await.expect("a database");
        let pool = crate::db::pool(&Secret::new(database.url().to_owned()), 1, "test").expect("a pool");
        let mut other = sqlx::PgConnection::connect(database.url()).await.expect("a connection");
        sqlx::query("CREATE TABLE written (n integer PRIMARY KEY)").execute(&pool).await.expect("a table");
        for n in 0..20_i32 {
            // The first poll sends the statement; the future is dropped before the response.
            let abandon = async {
                for _ in 0..n / 4 {
                    tokio::task::yield_now().await;
                }
            };
            let begin = async { if n % 2 == 0 { begin(&pool).await } else { snapshot(&pool).await } };
            tokio::select! {
                biased;
                result = begin => drop(result),
                () = abandon => {}
            }
            sqlx::query("INSERT INTO written VALUES ($1)").bind(n).execute(&pool).await.expect("written");
            let visible: i64 =
                sqlx::query_scalar("SELECT count(*) FROM written").fetch_one(&mut other).await.expect("read");
            assert_eq!(visible, i64::from(n) + 1, "acknowledged writes are visible to other connections");
        }
    }
}
