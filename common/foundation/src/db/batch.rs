//! Batches: concurrent calls become one statement. While a batch is executed, the next calls accumulate, so batches
//! grow with the load and no call waits for a batch to fill.

use std::io;
use std::pin::Pin;
use std::slice;
use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::{Tx, ends_connection, is_temporary};
use crate::error::{Error, Result};

#[cfg(test)]
mod tests;

/// Items executed by one statement.
const LIMIT: usize = 64;
/// How often a batch lets the tasks run that can run now, before it begins. More would delay the first caller in a busy
/// process.
const YIELDS: usize = 2;
/// Calls waiting for a batch; a caller waits when there are more.
const CAPACITY: usize = 1_024;
/// A batch that takes longer, for example because it waits for a lock, does not hold up the next one.
const SLOW: Duration = Duration::from_millis(50);
/// Batches executed at the same time, if they are slow.
const CONCURRENCY: usize = 4;
/// Longer than the server's `statement_timeout`: the connection is dead.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The execution of a batch: an output for each item, in order.
pub type Executed<'a, O> = Pin<Box<dyn Future<Output = sqlx::Result<Vec<O>>> + Send + 'a>>;

type Caller<O> = oneshot::Sender<sqlx::Result<O>>;

/// A value of each item: the array parameter of a statement that executes a batch.
pub fn column<'a, I, T>(items: &'a [I], value: impl FnMut(&'a I) -> T) -> Vec<T> {
    items.iter().map(value).collect()
}

/// A stack of batches to execute: at first one of all items, if there are any.
pub fn one_batch<T>(items: &[T]) -> Vec<&[T]> {
    if items.is_empty() { Vec::new() } else { vec![items] }
}

/// If a batch failed, undoes what it did since the savepoint, and pushes its halves onto that stack: until the items at
/// fault are alone, the others are executed in their order. Returns such an item with its error.
///
/// # Errors
/// An error that is [temporary](is_temporary), because it concerns all items alike; database errors.
pub async fn undo_failed<'a, T>(
    tx: &mut Tx,
    batches: &mut Vec<&'a [T]>,
    batch: &'a [T],
    result: Result<()>,
) -> Result<Option<(&'a T, Error)>> {
    let Err(error) = result else { return Ok(None) };
    if is_temporary(&error) {
        return Err(error);
    }
    tx.rollback_to_savepoint().await?;
    if let [alone] = batch {
        return Ok(Some((alone, error)));
    }
    let (first, second) = batch.split_at(batch.len() / 2);
    batches.extend([second, first]);
    Ok(None)
}

/// Executes concurrent calls in batches.
#[derive(Debug)]
pub struct Batcher<I, O> {
    calls: mpsc::Sender<(I, Caller<O>)>,
}

impl<I: Send + Sync + 'static, O: Send + 'static> Batcher<I, O> {
    /// Starts the task that executes batches of at most 64 items with `execute`, each one statement that commits by
    /// itself, or one transaction. Must be called inside a Tokio runtime. The task ends with the batcher. `name` is the
    /// label of its metric.
    ///
    /// If Postgres rejects a batch, each item is executed alone, so that one does not fail the others.
    pub fn start<E>(name: &'static str, pool: PgPool, execute: E) -> Self
    where
        E: for<'a> Fn(&'a mut PgConnection, &'a [I]) -> Executed<'a, O> + Clone + Send + Sync + 'static,
    {
        let sizes = metrics::histogram!("database_batch_items", "batch" => name);
        Self::spawn(move |items, callers| {
            sizes.record(items.len() as f64);
            execute_batch(pool.clone(), execute.clone(), items, callers)
        })
    }

    fn spawn<E, F>(execute: E) -> Self
    where
        E: Fn(Vec<I>, Vec<Caller<O>>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (calls, accumulated) = mpsc::channel(CAPACITY);
        #[expect(clippy::disallowed_methods, reason = "a caller without a result treats its item as ambiguous")]
        tokio::spawn(run(accumulated, execute));
        Self { calls }
    }

    /// Executes an item with those of concurrent callers. If this future is dropped, the item is executed only if its
    /// batch has begun.
    ///
    /// # Errors
    /// The database's. After [`sqlx::Error::PoolTimedOut`] the item was not executed, because no connection could be
    /// had. After any other [`lost_connection`](super::lost_connection) it may have been executed.
    pub async fn call(&self, item: I) -> sqlx::Result<O> {
        let (caller, result) = oneshot::channel();
        if self.calls.send((item, caller)).await.is_err() {
            return Err(sqlx::Error::WorkerCrashed);
        }
        result.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
    }
}

async fn run<I, O, E, F>(mut accumulated: mpsc::Receiver<(I, Caller<O>)>, execute: E)
where
    E: Fn(Vec<I>, Vec<Caller<O>>) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let (mut running, mut batch) = (JoinSet::new(), Vec::with_capacity(LIMIT));
    // One batch at a time: the more calls share a statement and its commit, the less each costs.
    while accumulated.recv_many(&mut batch, LIMIT).await > 0 {
        add_runnable(&mut accumulated, &mut batch).await;
        batch.retain(|(_, caller)| !caller.is_closed());
        if batch.is_empty() {
            continue;
        }
        let (items, callers) = batch.drain(..).unzip();
        running.spawn(execute(items, callers));
        let _ = timeout(SLOW, running.join_next()).await;
        while running.len() >= CONCURRENCY {
            running.join_next().await;
        }
    }
    while running.join_next().await.is_some() {}
}

/// Adds the calls of tasks that can run now: one event wakes many callers, such as the responses of the batch before, and the
/// first of them would otherwise begin a batch alone. Waits for nothing.
async fn add_runnable<T>(accumulated: &mut mpsc::Receiver<T>, batch: &mut Vec<T>) {
    for _ in 0..YIELDS {
        let before = batch.len();
        if before == LIMIT {
            return;
        }
        yield_now().await;
        while batch.len() < LIMIT
            && let Ok(call) = accumulated.try_recv()
        {
            batch.push(call);
        }
        if batch.len() == before {
            return;
        }
    }
}

/// Executes the items and gives each caller its result as soon as it is known. A caller may have been cancelled.
async fn execute_batch<I, O, E>(pool: PgPool, execute: E, items: Vec<I>, callers: Vec<Caller<O>>)
where
    E: for<'a> Fn(&'a mut PgConnection, &'a [I]) -> Executed<'a, O>,
{
    let mut connection = match pool.acquire().await {
        Ok(connection) => connection,
        Err(error) => {
            tracing::warn!(%error, items = items.len(), "no connection for a batch");
            return respond(callers, || Err(sqlx::Error::PoolTimedOut));
        }
    };
    let error = match limited(execute(&mut connection, &items)).await {
        Ok(outputs) => {
            let mut outputs = outputs.into_iter();
            return respond(callers, || outputs.next().ok_or(sqlx::Error::RowNotFound));
        }
        Err(error) => error,
    };
    if ends_connection(&error) {
        // The response to an abandoned statement may still arrive.
        drop(connection.detach());
        return respond(callers, || Err(aborted(&error.to_string())));
    }
    let (mut callers, mut error) = (callers.into_iter(), Some(error).filter(|_| items.len() == 1));
    for (item, caller) in items.iter().zip(&mut callers) {
        if caller.is_closed() {
            continue;
        }
        let result = match error.take() {
            Some(error) => Err(error),
            None => limited(execute(&mut connection, slice::from_ref(item)))
                .await
                .and_then(|mut outputs| outputs.pop().ok_or(sqlx::Error::RowNotFound)),
        };
        let is_lost = result.as_ref().is_err_and(ends_connection);
        let _ = caller.send(result);
        if is_lost {
            drop(connection.detach());
            break;
        }
    }
    // Those after a lost connection have not been executed.
    respond(callers, || Err(sqlx::Error::PoolTimedOut));
}

async fn limited<O>(execution: Executed<'_, O>) -> sqlx::Result<Vec<O>> {
    timeout(TIMEOUT, execution).await.unwrap_or_else(|_| Err(aborted("no response")))
}

fn respond<O>(callers: impl IntoIterator<Item = Caller<O>>, mut result: impl FnMut() -> sqlx::Result<O>) {
    for caller in callers {
        let _ = caller.send(result());
    }
}

/// The error of a batch that may have been executed.
fn aborted(reason: &str) -> sqlx::Error {
    sqlx::Error::Io(io::Error::new(io::ErrorKind::ConnectionAborted, reason))
}
