//! The consuming side: one pool of handlers per queue, run by apalis until the process is told to stop.

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
use crate::{Queue, Wake};

/// What is done with a wake-up. It answers nothing: the row says what happened.
pub type Handler = Arc<dyn Fn(Wake) -> BoxFuture<'static, ()> + Send + Sync>;

/// How long things may take, each more than 0. The default suits production; tests are in more of a hurry.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// An entry not renewed for this long is handed to another consumer. Must be several times `renew_every`, and
    /// longer than the stalls of Redis that are to go unnoticed.
    pub visibility: Duration,
    /// How often the entries in flight are renewed, so that a handler may take as long as it likes.
    pub renew_every: Duration,
    /// How long one read waits for entries. Between reads, at most this often, the consumer looks for entries to take
    /// over.
    pub block: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { visibility: Duration::from_secs(15), renew_every: Duration::from_secs(3), block: Duration::from_secs(5) }
    }
}

/// A queue, and who handles it.
#[derive(Clone)]
pub struct Pool {
    /// What is consumed.
    pub queue: Queue,
    /// Most handlers at a time in this process; at least 1.
    pub concurrency: usize,
    /// Times of the consumer.
    pub timing: Timing,
    /// Called for each wake-up, on a Tokio task of its own. Put time limits inside it: from outside they would cut work
    /// in two. A panic ends this one call and is logged.
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

    fn assert_able(&self) {
        let Timing { visibility, renew_every, block } = self.timing;
        let able = self.concurrency > 0 && ![visibility, renew_every, block].iter().any(Duration::is_zero);
        assert!(able, "the pool {} could never do anything", self.queue.name());
    }
}

/// How a [`run`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Handlers still running when the time was up; 0 after a graceful stop. They go on until the runtime is dropped,
    /// and their entries come to another process after the visibility.
    pub unfinished: usize,
}

/// Consumes all `pools` until `shutdown` resolves. Then nothing new is read or begun, what is in flight has
/// `shutdown_timeout` to finish and is acknowledged, and what was read but not begun is given back.
///
/// Redis may come and go meanwhile: it is waited for. Must be called inside a Tokio runtime, with the recorder of
/// metrics installed.
///
/// # Panics
///
/// If a pool's concurrency or one of its times is 0: it could never do anything.
pub async fn run(
    redis: &Redis,
    pools: Vec<Pool>,
    shutdown: impl Future<Output = ()> + Send,
    shutdown_timeout: Duration,
) -> Stopped {
    let stop = CancellationToken::new();
    let mut monitor = Monitor::new()
        // The sleep is made when it is first polled: its time runs from the stop, not from now.
        .with_terminator(async move { sleep(shutdown_timeout).await })
        // The backend has no errors, so this is a bug; a new consumer does more good than a process that runs without
        // one.
        .should_restart(|worker, error| {
            error!(worker = worker.name(), %error, "a worker ended; starting it again");
            true
        })
        .on_event(|worker, event| {
            if let Event::Error(error) = event {
                error!(worker = worker.name(), %error, "a handler panicked");
            }
        });
    for pool in pools {
        pool.assert_able();
        let (redis, stop) = (redis.clone(), stop.clone());
        monitor = monitor.register(move |_restarts| {
            let Pool { queue, concurrency, timing, handler } = pool.clone();
            let backend = StreamBackend::start(redis.clone(), queue, concurrency, timing, stop.child_token());
            WorkerBuilder::new(queue.name()).backend(backend).parallelize(spawn).build(move |wake: Wake| {
                let handler = Arc::clone(&handler);
                let span = info_span!("wake", queue = queue.name(), id = %wake.id, request_id = wake.request_id);
                // Called inside its own task, so that a panic before the first await ends no more than that task.
                async move { handler(wake).await }.instrument(span)
            })
        });
    }
    let context = monitor.context();
    let signal = async {
        shutdown.await;
        // First the reading, then the workers, which would otherwise drain while the fetchers go on.
        stop.cancel();
        Ok(())
    };
    if let Err(error) = monitor.run_with_signal(signal).await {
        error!(%error, "the workers did not stop in order");
    }
    let unfinished = context.workers().iter().map(|worker| worker.task_count()).sum();
    Stopped { unfinished }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a handler lost with its process is a row that the sweep hands out again"
)]
fn spawn<F>(handler: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(handler)
}
