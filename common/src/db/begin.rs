//! Beginning a transaction such that a caller who goes away meanwhile does no harm.
//!
//! sqlx 0.9.0 forgets a `BEGIN` whose future is dropped before its answer has come (sqlx issue 4393, mended after that version). The
//! connection goes back to the pool inside a transaction that nobody commits: what the next caller writes on it is acknowledged and
//! lost. A request's future is dropped whenever its client hangs up, so every transaction on a pool is begun here; clippy.toml
//! disallows the others.

use std::pin::Pin;
use std::task::{Context, Poll};

use sqlx::{PgPool, Postgres, SqlStr, Transaction};
use tokio::runtime::Handle;

/// Begins a transaction whose statements all see the same moment, and lock nothing.
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

type Begun = Result<Transaction<'static, Postgres>, sqlx::Error>;
type Beginning = Pin<Box<dyn Future<Output = Begun> + Send>>;

/// Begins a transaction.
///
/// # Errors
/// The database's, or no connection was free in time.
pub async fn begin(pool: &PgPool) -> Begun {
    ToItsEnd::of(Transaction::begin(pool.acquire().await?, None)).await
}

/// Begins a transaction whose statements all see the same moment, and lock nothing.
///
/// # Errors
/// As [`begin`].
pub async fn snapshot(pool: &PgPool) -> Begun {
    ToItsEnd::of(Transaction::begin(pool.acquire().await?, Some(SqlStr::from_static(SNAPSHOT)))).await
}

/// Goes on by itself if it is dropped before its end. The transaction that nobody wants any more is then dropped, which rolls it back.
struct ToItsEnd(Option<Beginning>);

impl ToItsEnd {
    fn of(beginning: Beginning) -> Self {
        Self(Some(beginning))
    }
}

impl Future for ToItsEnd {
    type Output = Begun;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Begun> {
        let Some(beginning) = &mut self.0 else { return Poll::Pending };
        let begun = beginning.as_mut().poll(context);
        if begun.is_ready() {
            self.0 = None;
        }
        begun
    }
}

impl Drop for ToItsEnd {
    fn drop(&mut self) {
        // Without a runtime the process ends, and its connections with it.
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
    async fn what_is_written_after_a_beginning_was_given_up_is_committed() {
        let database = testkit::Database::create().await.expect("a database");
        let pool = crate::db::pool(&Secret::new(database.url().to_owned()), 1, "test").expect("a pool");
        let mut other = sqlx::PgConnection::connect(database.url()).await.expect("a connection");
        sqlx::query("CREATE TABLE written (n integer PRIMARY KEY)").execute(&pool).await.expect("a table");
        for n in 0..20_i32 {
            // From the first poll on the statement is on its way, and nobody waits for the answer.
            let give_up = async {
                for _ in 0..n / 4 {
                    tokio::task::yield_now().await;
                }
            };
            let beginning = async { if n % 2 == 0 { begin(&pool).await } else { snapshot(&pool).await } };
            tokio::select! {
                biased;
                begun = beginning => drop(begun),
                () = give_up => {}
            }
            sqlx::query("INSERT INTO written VALUES ($1)").bind(n).execute(&pool).await.expect("written");
            let seen: i64 =
                sqlx::query_scalar("SELECT count(*) FROM written").fetch_one(&mut other).await.expect("read");
            assert_eq!(seen, i64::from(n) + 1, "what was acknowledged is there for others");
        }
    }
}
