//! A transaction of a pool, for whose end a request that runs again can wait.

use std::ops::{Deref, DerefMut};

use sqlx::{PgConnection, PgPool, Postgres};

use super::committed;
use super::is_conflict;

/// A transaction. It is rolled back if it is dropped before it is committed.
#[derive(Debug)]
pub struct Transaction {
    /// `None` after its end.
    inner: Option<sqlx::Transaction<'static, Postgres>>,
    pool: PgPool,
}

impl Transaction {
    pub(super) const fn new(inner: sqlx::Transaction<'static, Postgres>, pool: PgPool) -> Self {
        Self { inner: Some(inner), pool }
    }

    /// Commits.
    ///
    /// # Errors
    /// The database's.
    pub async fn commit(mut self) -> sqlx::Result<()> {
        let Some(inner) = self.inner.take() else { return Ok(()) };
        let result = inner.commit().await;
        if result.as_ref().is_err_and(is_conflict) {
            committed::await_refused_commit(&self.pool);
        }
        result
    }

    /// Rolls back at once.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn rollback(mut self) -> sqlx::Result<()> {
        let Some(inner) = self.inner.take() else { return Ok(()) };
        inner.rollback().await
    }
}

/// Commits a transaction without wake-ups.
///
/// # Errors
/// The database's.
pub async fn commit(tx: Transaction) -> sqlx::Result<()> {
    let result = tx.commit().await;
    committed::note_commit(&result);
    result
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            committed::roll_back(inner);
        }
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.inner.as_ref().expect("only calls that consume a transaction end it")
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.inner.as_mut().expect("only calls that consume a transaction end it")
    }
}
