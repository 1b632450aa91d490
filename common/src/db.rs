//! The connection pool, transactions whose commit wakes somebody, how large the database is, and what a database error means.

mod begin;
mod committed;
mod silence;
mod size;

use std::ops::{Deref, DerefMut};
use std::str::FromStr;
use std::time::Duration;

use queue::{Publisher, Queue};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, Postgres, Transaction};
use uuid::Uuid;

pub use begin::{begin, snapshot};
pub use committed::watch_commits;
pub(crate) use committed::{commit, note_commit};
pub use silence::gone_silent;
pub use size::{Size, TableSize, size};

use crate::crypto::Secret;

/// How long a request waits for a connection before it fails: shorter than any client's patience.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that was not used for so long is asked whether it still is one.
const ASK_AFTER_IDLE: Duration = Duration::from_secs(1);

/// A pool that connects when it is first needed, so that a process starts while Postgres is away and recovers by itself.
///
/// # Errors
/// The URL is malformed.
pub fn pool(url: &Secret<String>, max_connections: u32, name: &str) -> Result<PgPool, sqlx::Error> {
    Ok(with_options(max_connections, options(url, name)?))
}

/// The same, but its commits do not wait for the disk: for what may be forgotten if the database's machine breaks down, such
/// as who was about to try something that may be tried twice.
///
/// # Errors
/// The URL is malformed.
pub fn forgetful_pool(url: &Secret<String>, max_connections: u32, name: &str) -> Result<PgPool, sqlx::Error> {
    Ok(with_options(max_connections, options(url, name)?.options([("synchronous_commit", "off")])))
}

fn options(url: &Secret<String>, name: &str) -> Result<PgConnectOptions, sqlx::Error> {
    let options = PgConnectOptions::from_str(url.expose())?
        .application_name(name)
        // A statement that runs longer holds locks that others wait for; nothing of ours comes near these limits.
        .options([
            ("statement_timeout", "15s"),
            ("lock_timeout", "10s"),
            ("idle_in_transaction_session_timeout", "15s"),
            // Every statement of ours is meant to leap through an index, whatever the tables' size. A plan made while a
            // table is small would read it whole, and be kept while it grows; so such plans are not to be had. What they
            // would cost is then said to be immense, for which no plan is worth compiling.
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("enable_sort", "off"),
            // Of a page the planner believes that a tenth of the table will be read, whatever its limit. It would rather plan it
            // anew each time, which costs more than the page.
            ("plan_cache_mode", "force_generic_plan"),
            ("jit", "off"),
        ]);
    Ok(options)
}

fn with_options(max_connections: u32, options: PgConnectOptions) -> PgPool {
    PgPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A check on every use would cost a round trip on every use. Under load a dead connection is found by its statement;
        // one that has lain idle, through a restart of Postgres perhaps, is asked first.
        .test_before_acquire(false)
        .before_acquire(|connection, metadata| {
            Box::pin(async move {
                if metadata.idle_for > ASK_AFTER_IDLE {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(options)
}

/// Says no where nothing may be written, and otherwise has something to commit.
const WRITE: &str = "SELECT current_setting('transaction_read_only') = 'off'
    AND pg_logical_emit_message(true, 'unified-payments', '') IS NOT NULL";

/// Whether what is written is committed. Reads are answered by a server that commits nothing too: one that was demoted, or one
/// that waits for a synchronous standby, and there this waits with it. So something is written: a message in the log of the
/// database, which stands in no table and needs no vacuum.
///
/// # Errors
/// The database's.
pub async fn commits(connection: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar(WRITE).fetch_one(connection).await
}

/// The pool, with the queue beside it: for whoever writes what others are to be told of.
#[derive(Clone)]
pub struct Db {
    pool: PgPool,
    publisher: Option<Publisher>,
}

impl Db {
    /// A pool and the queue.
    pub const fn new(pool: PgPool, publisher: Publisher) -> Self {
        Self { pool, publisher: Some(publisher) }
    }

    /// A pool alone: nobody is woken, and the sweeps find what is to be done.
    pub const fn without_queue(pool: PgPool) -> Self {
        Self { pool, publisher: None }
    }

    /// The queue, where there is one.
    pub const fn publisher(&self) -> Option<&Publisher> {
        self.publisher.as_ref()
    }

    /// Begins a transaction that can tell others of what it writes, once it has been committed.
    ///
    /// # Errors
    /// Only the database's.
    pub async fn begin(&self) -> Result<Tx, sqlx::Error> {
        let inner = begin(&self.pool).await?;
        Ok(Tx { inner, publisher: self.publisher.clone(), wakes: Vec::new() })
    }

    /// Wakes those who are to look at rows which a statement of its own has committed. As with [`Tx::wake`].
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

/// A transaction that remembers who is to look at what it has written. They are woken after the commit and never before it,
/// when there would be nothing to see; after a rollback nobody is.
pub struct Tx {
    inner: Transaction<'static, Postgres>,
    publisher: Option<Publisher>,
    wakes: Vec<(Queue, Uuid)>,
}

impl Tx {
    /// Somebody is to look at this row after the commit. A wake-up may be lost: whatever it is about is also found by a
    /// sweep.
    pub fn wake(&mut self, queue: Queue, id: Uuid) {
        self.wakes.push((queue, id));
    }

    /// Commits, and wakes.
    ///
    /// # Errors
    /// The database's; then nobody is woken, whether it was committed or not.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        commit(self.inner).await?;
        for (queue, id) in self.wakes {
            post(self.publisher.as_ref(), queue, id);
        }
        Ok(())
    }

    /// Takes it all back now; when it is merely dropped, its locks are held until somebody gets round to that.
    ///
    /// # Errors
    /// Only the database's.
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

/// The name of the constraint that refused a statement.
pub fn violated(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error().and_then(|e| e.constraint())
}

/// Whether Postgres has ended the transaction for the sake of another: a serialization failure, a deadlock, or a lock that was not
/// granted in time. It says so instead of an answer to a COMMIT too, and nothing was committed then.
pub fn is_conflict(error: &sqlx::Error) -> bool {
    const CONFLICTS: [&str; 3] = ["40001", "40P01", "55P03"];
    error.as_database_error().and_then(|said| said.code()).is_some_and(|code| CONFLICTS.contains(&&*code))
}

/// Whether the statement may succeed if it is run again as it is: a lock was waited for in vain, a deadlock was broken, or it
/// took too long.
pub fn worth_repeating(error: &sqlx::Error) -> bool {
    const PASSING: [&str; 5] = ["40001", "40P01", "55P03", "57014", "25P03"];
    error.as_database_error().and_then(|said| said.code()).is_some_and(|code| PASSING.contains(&&*code))
}

/// Whether the server takes no writes, as one that is not (yet) the primary.
pub fn is_read_only(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|said| said.code()).is_some_and(|code| code == "25006")
}

/// Whether the server or the line to it failed: nothing is known of a COMMIT that was on its way.
pub fn lost_connection(error: &sqlx::Error) -> bool {
    if let Some(said) = error.as_database_error() {
        // 57P01 admin shutdown, 57P02 crash shutdown, 57P03 starting up, 08xxx connection exceptions, 53300 too many connections.
        return said.code().is_some_and(|code| code.starts_with("57P0") || code.starts_with("08") || code == "53300");
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
