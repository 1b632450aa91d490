//! The connection pool, transactions that enqueue work on commit, database size, and the classification of database
//! errors.

mod batch;
mod begin;
mod committed;
mod reader;
mod size;
mod transaction;
mod unresponsive;

use std::ops::{Deref, DerefMut};
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::join_all;
use queue::{Publisher, Queue};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;
use uuid::Uuid;

pub use batch::{Batcher, Executed, column, one_batch, undo_failed};
pub use begin::{begin, filtered_snapshot, snapshot};
pub use committed::{Transactions, note_commit, watch_transactions};
pub use reader::Reader;
pub use size::{Size, TableSize, size};
pub use transaction::Transaction;
pub use unresponsive::wait_until_unresponsive;

use crate::crypto::Secret;
use crate::error::Error;

/// How long a request waits for a connection. Shorter than any client's timeout.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an operator's command waits for a connection: longer than a request, because nothing times out meanwhile.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a command waits for its connection before it finds out what prevents that. A connection takes milliseconds.
const EXPLAIN_AFTER: Duration = Duration::from_millis(500);

/// How long a command that ends waits for its connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that was idle for longer is pinged before use.
const PING_AFTER_IDLE: Duration = Duration::from_secs(1);

/// A pool that connects on first use, so that a process can start while Postgres is unavailable and recovers by itself.
///
/// # Errors
/// The URL is malformed.
pub fn pool(url: &Secret<String>, max_connections: u32, name: &str) -> Result<PgPool, sqlx::Error> {
    Ok(with_options(max_connections, options(url, name)?, ACQUIRE_TIMEOUT))
}

/// A pool of one connection for an operator's command, which does one thing after another: a connection costs more than
/// most commands. So no command may hold the connection while it takes another. Connects at once and says what prevents
/// it: a pool tries again when it is refused, and then reports only that time has passed.
///
/// # Errors
/// The URL is malformed, or Postgres accepts no connection.
pub async fn command_pool(url: &Secret<String>, name: &str) -> Result<PgPool, sqlx::Error> {
    let options = options(url, name)?;
    let pool = with_options(1, options.clone(), COMMAND_TIMEOUT);
    if let Ok(first) = timeout(EXPLAIN_AFTER, pool.acquire()).await {
        drop(first?);
        return Ok(pool);
    }
    let first = timeout(COMMAND_TIMEOUT, PgConnection::connect_with(&options)).await;
    first.map_err(|_| sqlx::Error::PoolTimedOut)??.close().await?;
    Ok(pool)
}

/// Opens a quarter of the pool's connections, so that the first requests do not wait for a busy Postgres to start them. A
/// failure is left to those requests.
pub async fn open_connections(pool: &PgPool) {
    let count = pool.options().get_max_connections().div_ceil(4);
    join_all((0..count).map(|_| pool.acquire())).await;
}

/// Analyzes tables that have grown since they were last analyzed, and returns how many. Until then, processes keep plans
/// that were made for small tables; autovacuum takes a minute to do the same.
///
/// # Errors
/// Database errors only.
pub async fn analyze_grown_tables(pool: &PgPool) -> Result<i32, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT analyze_grown_tables() AS "analyzed!""#).fetch_one(pool).await
}

/// As [`pool`], with `synchronous_commit = off`: for writes that may be lost in a crash of the database server, such as
/// claims of work that is safe to repeat.
///
/// # Errors
/// The URL is malformed.
pub fn async_commit_pool(url: &Secret<String>, max_connections: u32, name: &str) -> Result<PgPool, sqlx::Error> {
    let options = options(url, name)?.options([("synchronous_commit", "off")]);
    Ok(with_options(max_connections, options, ACQUIRE_TIMEOUT))
}

/// Closes the connections of a command that ends; Postgres logs those that end otherwise. Does not wait for one whose
/// statement hangs, as commits do without the synchronous standby.
pub async fn close(pool: &PgPool) {
    let _ = timeout(CLOSE_TIMEOUT, pool.close()).await;
}

fn options(url: &Secret<String>, name: &str) -> Result<PgConnectOptions, sqlx::Error> {
    let options = PgConnectOptions::from_str(url.expose())?
        .application_name(name)
        // A slow statement blocks others with its locks. Our statements take far less than these limits.
        .options([
            ("statement_timeout", "15s"),
            ("lock_timeout", "10s"),
            ("idle_in_transaction_session_timeout", "15s"),
            // Payments are refused while an earlier charge for the same invoice or link has not been returned. Without
            // this setting, as in the previous version, they are not.
            ("unified_payments.one_charge", "on"),
            // The `lock_timeout` of statements that others wait for, and that have another way if they cannot have a lock.
            ("unified_payments.brief_lock_timeout", "1s"),
            // Every statement is designed for index scans at any table size. Otherwise a plan made for a small table
            // would scan it and stay cached while the table grows. Disabled plan nodes get immense costs, which would
            // trigger JIT, so that is off too.
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("enable_sort", "off"),
            // For a query with a LIMIT parameter the generic plan assumes a tenth of the table, so Postgres would plan
            // it on each execution, which costs more than the query.
            ("plan_cache_mode", "force_generic_plan"),
            ("jit", "off"),
        ]);
    Ok(options)
}

fn with_options(max_connections: u32, options: PgConnectOptions, acquire_timeout: Duration) -> PgPool {
    PgPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(acquire_timeout)
        // A check before every use would cost a round trip. Under load a statement detects a dead connection; a
        // connection that was idle, perhaps during a restart of Postgres, is pinged first.
        .test_before_acquire(false)
        .before_acquire(|connection, metadata| {
            Box::pin(async move {
                if metadata.idle_for > PING_AFTER_IDLE {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(options)
}

/// False on a read-only server; otherwise writes something to commit.
const WRITE: &str = "SELECT current_setting('transaction_read_only') = 'off'
    AND pg_logical_emit_message(true, 'unified-payments', '') IS NOT NULL";

/// Whether writes commit. A read would also succeed on a server that was demoted, or that waits for a synchronous
/// standby; this waits like any commit. Writes only a message to the WAL, so no table grows and nothing needs vacuum.
///
/// # Errors
/// The database's.
pub async fn can_commit(connection: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar(WRITE).fetch_one(connection).await
}

/// The pool together with the queue that wakes other processes after a commit.
#[derive(Clone)]
pub struct Db {
    pool: PgPool,
    publisher: Option<Publisher>,
}

impl Db {
    pub const fn new(pool: PgPool, publisher: Publisher) -> Self {
        Self { pool, publisher: Some(publisher) }
    }

    /// Without a queue no process is woken; the sweeps find the work.
    pub const fn without_queue(pool: PgPool) -> Self {
        Self { pool, publisher: None }
    }

    pub const fn publisher(&self) -> Option<&Publisher> {
        self.publisher.as_ref()
    }

    /// Begins a transaction that can wake other processes after its commit.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn begin(&self) -> Result<Tx, sqlx::Error> {
        let inner = begin(&self.pool).await?;
        Ok(Tx { inner, publisher: self.publisher.clone(), wakes: Vec::new(), wakes_at_savepoint: 0 })
    }

    /// Enqueues rows that were committed outside of a [`Tx`]. See [`Tx::wake`].
    pub fn wake(&self, queue: Queue, ids: impl IntoIterator<Item = Uuid>) {
        for id in ids {
            post(self.publisher.as_ref(), queue, id);
        }
    }
}

fn post(publisher: Option<&Publisher>, queue: Queue, id: Uuid) {
    if let Some(publisher) = publisher {
        publisher.post(queue, id.into());
    }
}

impl Deref for Db {
    type Target = PgPool;

    fn deref(&self) -> &PgPool {
        &self.pool
    }
}

/// A transaction that collects wake-ups and sends them after the commit, because the rows are not visible before. After
/// a rollback it sends none.
pub struct Tx {
    inner: Transaction,
    publisher: Option<Publisher>,
    wakes: Vec<(Queue, Uuid)>,
    wakes_at_savepoint: usize,
}

impl Tx {
    /// Enqueues this row after the commit. A wake-up may be lost; the sweep then finds the row.
    pub fn wake(&mut self, queue: Queue, id: Uuid) {
        self.wakes.push((queue, id));
    }

    /// Begins a part of the transaction, which [`Self::rollback_to_savepoint`] can undo if one of its statements fails. What
    /// was locked before stays locked.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn savepoint(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query("SAVEPOINT part").execute(&mut **self).await?;
        self.wakes_at_savepoint = self.wakes.len();
        Ok(())
    }

    /// Undoes what was done since the last savepoint.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn rollback_to_savepoint(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query("ROLLBACK TO SAVEPOINT part").execute(&mut **self).await?;
        self.wakes.truncate(self.wakes_at_savepoint);
        Ok(())
    }

    /// Commits, then sends the wake-ups.
    ///
    /// # Errors
    /// The database's; then no wake-up is sent, although the commit may have succeeded.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.inner.commit().await?;
        for (queue, id) in self.wakes {
            post(self.publisher.as_ref(), queue, id);
        }
        Ok(())
    }

    /// Rolls back at once. Dropping the transaction instead holds its locks until the pool rolls it back.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        self.inner.rollback().await
    }
}

impl Deref for Tx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.inner
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.inner
    }
}

/// The name of the violated constraint.
pub fn violated_constraint(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error().and_then(|e| e.constraint())
}

/// Whether Postgres aborted the transaction because of a concurrent one: a serialization failure, a deadlock, or a lock
/// timeout. As the response to a COMMIT it means that nothing was committed.
pub fn is_conflict(error: &sqlx::Error) -> bool {
    const CONFLICTS: [&str; 3] = ["40001", "40P01", "55P03"];
    error.as_database_error().and_then(|e| e.code()).is_some_and(|code| CONFLICTS.contains(&&*code))
}

/// Whether the statement may succeed if it is repeated: a lock timeout, a deadlock, a serialization failure or a
/// statement timeout.
pub fn is_retryable(error: &sqlx::Error) -> bool {
    const TRANSIENT: [&str; 5] = ["40001", "40P01", "55P03", "57014", "25P03"];
    error.as_database_error().and_then(|e| e.code()).is_some_and(|code| TRANSIENT.contains(&&*code))
}

/// Whether Postgres rejected the data (SQLSTATE classes 22 and 23): the same statement would be rejected again.
pub fn is_rejected(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code());
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

/// Whether the cause passes by itself: the database or the connection failed, another transaction was in the way, or this
/// process had too much to do. Any other error would occur again at once.
pub fn is_temporary(error: &Error) -> bool {
    matches!(error, Error::Busy(_))
        || matches!(error, Error::Database(cause) if lost_connection(cause) || is_retryable(cause))
}

/// Whether the server is read-only, as a standby is.
pub fn is_read_only(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|e| e.code()).is_some_and(|code| code == "25006")
}

/// Whether the connection has ended: it is lost, or Postgres closed it because a transaction was idle (25P03).
fn ends_connection(error: &sqlx::Error) -> bool {
    lost_connection(error) || error.as_database_error().and_then(|e| e.code()).is_some_and(|code| code == "25P03")
}

/// Whether the server or the connection failed, so that the result of a COMMIT in flight is unknown.
pub fn lost_connection(error: &sqlx::Error) -> bool {
    if let Some(e) = error.as_database_error() {
        // 57P01 admin shutdown, 57P02 crash shutdown, 57P03 starting up, 08xxx connection exceptions, 53300 too many
        // connections.
        return e.code().is_some_and(|code| code.starts_with("57P0") || code.starts_with("08") || code == "53300");
    }
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
    )
}
