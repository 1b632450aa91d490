//! A transaction of a pool, for whose end a request that runs again can wait.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgTransactionManager;
use sqlx::{PgConnection, Postgres, SqlStr};
use sqlx_core::transaction::TransactionManager as _;

use super::committed;

/// A transaction. It is rolled back if it is dropped before it is committed.
#[derive(Debug)]
pub struct Transaction {
    /// `None` after its end.
    connection: Option<PoolConnection<Postgres>>,
}

impl Transaction {
    pub(super) async fn begin(
        mut connection: PoolConnection<Postgres>,
        statement: Option<SqlStr>,
    ) -> sqlx::Result<Self> {
        PgTransactionManager::begin(&mut connection, statement).await?;
        Ok(Self { connection: Some(connection) })
    }

    /// Commits. A request that has committed is not run again.
    ///
    /// # Errors
    /// The database's.
    pub async fn commit(self) -> sqlx::Result<()> {
        let result = self.commit_repeatable().await;
        committed::note_commit(&result);
        result
    }

    /// Commits what does no harm if the request runs again and commits it again.
    ///
    /// # Errors
    /// The database's.
    pub async fn commit_repeatable(mut self) -> sqlx::Result<()> {
        // After a refused COMMIT `self` is dropped, and the request waits for its ROLLBACK.
        PgTransactionManager::commit(&mut self).await?;
        self.connection = None;
        Ok(())
    }

    /// Rolls back at once.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn rollback(mut self) -> sqlx::Result<()> {
        PgTransactionManager::rollback(&mut self).await?;
        self.connection = None;
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            // Sent with the next use of the connection, at the latest when the pool tests it.
            PgTransactionManager::start_rollback(&mut connection);
            committed::await_rollback(connection);
        }
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("only calls that consume a transaction end it")
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("only calls that consume a transaction end it")
    }
}
