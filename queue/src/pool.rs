//! The consuming side: one pool of handlers per queue, run by apalis until shutdown.

use std::sync::Arc;
use std::time::Duration;

use apalis_core::monitor::Monitor;
use apalis_core::worker::builder::WorkerBuilder;
use apalis_core::worker::event::Event;
use apalis_core::worker::ext::parallelize::ParallelizeExt;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, info_span};

use crate::backend::StreamBackend;
use crate::connection::Redis;
use crate::{Queue, Timing, Wake};

/// Handles a wake-up. It returns nothing, because the row contains the outcome.
pub type Handler = Arc<dyn Fn(Wake) -> BoxFuture<'static, ()> + Send + Sync>;

/// A queue and its handler.
#[derive(Clone)]
pub struct Pool {
    /// The consumed queue.
    pub queue: Queue,
    /// Maximum number of concurrent handlers in this process; at least 1.
    pub concurrency: usize,
    /// Timings of the consumer.
    pub timing: Timing,
    /// Called for each wake-up, on a Tokio task of its own. Timeouts belong inside it: from outside they would
    /// interrupt it at an arbitrary point. A panic ends only this call and is logged.
    pub handler: Handler,
}

impl Pool {
    /// A pool with the default [`Timing`].
    pub fn new<F>(queue: Queue, concurrency: usize, handler: impl Fn(Wake) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { queue, concurrency, timing: Timing::default(), handler: Arc::new(move |wake| handler(wake).boxed()) }
    }

    fn assert_valid(&self) {
        let Timing { visibility, renew_every, block } = self.timing;
        let valid = self.concurrency > 0 && ![visibility, renew_every, block].iter().any(Duration::is_zero);
        assert!(valid, "the concurrency and the timings of pool {} must be above zero", self.queue.name());
    }
}

/// The result of [`run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Handlers still running at the end of the shutdown timeout; 0 after a graceful stop. They continue until the
    /// runtime is dropped, and another process gets their entries after the visibility timeout.
    pub unfinished: usize,
}

/// Consumes all `pools` until `shutdown` resolves. Then it reads and starts nothing more. Running handlers have
/// `shutdown_timeout` to finish and are acknowledged; entries that were read but not started are released.
///
/// If Redis is unavailable, it reconnects until Redis returns. Must be called inside a Tokio runtime, after the metrics
/// recorder is installed.
///
/// # Panics
///
/// If a pool's concurrency or one of its timings is zero.
pub async fn run(
    redis: &Redis,
    pools: Vec<Pool>,
    shutdown: impl Future<Output = ()> + Send,
    shutdown_timeout: Duration,
) -> Stopped {
    let stop = CancellationToken::new();
    let mut monitor = Monitor::new()
        // The sleep is created at its first poll, so its time starts with the stop.
        .with_terminator(async move { sleep(shutdown_timeout).await })
        // The backend never fails, so this is a bug; restart, because a process without a consumer is worse.
        .should_restart(|worker, error| {
            error!(worker = worker.name(), %error, "a worker ended; restarting it");
            true
        })
        .on_event(|worker, event| {
            if let Event::Error(error) = event {
                error!(worker = worker.name(), %error, "a handler panicked");
            }
        });
    for pool in pools {
        pool.assert_valid();
        let (redis, stop) = (redis.clone(), stop.clone());
        monitor = monitor.register(move |_restarts| {
            let Pool { queue, concurrency, timing, handler } = pool.clone();
            let backend = StreamBackend::start(redis.clone(), queue, concurrency, timing, stop.child_token());
            WorkerBuilder::new(queue.name()).backend(backend).parallelize(spawn).build(move |wake: Wake| {
                let handler = Arc::clone(&handler);
                let span = info_span!("wake", queue = queue.name(), id = %wake.id, request_id = wake.request_id);
                // Called inside its own task, so that a panic before the first await ends only that task.
                async move { handler(wake).await }.instrument(span)
            })
        });
    }
    let context = monitor.context();
    let signal = async {
        shutdown.await;
        // Stop the fetchers before the workers, which would otherwise drain while entries still arrive.
        stop.cancel();
        Ok(())
    };
    if let Err(error) = monitor.run_with_signal(signal).await {
        error!(%error, "the workers did not stop cleanly");
    }
    let unfinished = context.workers().iter().map(|worker| worker.task_count()).sum();
    Stopped { unfinished }
}

#[expect(
    clippy::disallowed_methods,
    reason = "if a handler is lost with its process, the sweep enqueues its row again"
)]
fn spawn<F>(handler: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(handler)
}
