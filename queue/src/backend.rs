//! The apalis [`Backend`] of a queue. It yields wake-ups and never fails.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apalis_core::backend::finalize::Ephemeral;
use apalis_core::backend::{Backend, BackendConfig};
use apalis_core::task::Task;
use apalis_core::worker::context::WorkerContext;
use apalis_core::worker::ext::ack::AcknowledgeLayer;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::ack::{self, Acks};
use crate::connection::Redis;
use crate::fetcher::Fetcher;
use crate::in_flight::InFlight;
use crate::maintenance::Maintenance;
use crate::meter::Meter;
use crate::{Queue, Timing, Wake};

/// How long a stop waits for the last acknowledgements. Entries that miss it are redelivered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// One consumer of one queue: a task each for reading, acknowledging and maintenance, and a channel of the tasks read.
pub(crate) struct StreamBackend {
    tasks: mpsc::Receiver<Task<Wake>>,
    acks: Acks,
    timing: Timing,
    running: Option<Running>,
    closing: Option<BoxFuture<'static, ()>>,
}

/// The background tasks. Dropping this aborts them.
struct Running {
    stop: CancellationToken,
    fetcher: AbortOnDropHandle<()>,
    /// Cancelled when no handler runs any more.
    all_handled: CancellationToken,
    acknowledger: AbortOnDropHandle<()>,
    maintenance_task: AbortOnDropHandle<()>,
    maintenance: Maintenance,
}

impl StreamBackend {
    /// Reads until `stop`, with at most `concurrency` entries in flight. Must be called inside a Tokio runtime.
    pub(crate) fn start(
        redis: Redis,
        queue: Queue,
        concurrency: usize,
        timing: Timing,
        stop: CancellationToken,
    ) -> Self {
        let consumer = consumer_name();
        let meter = Meter::new(queue);
        let in_flight = InFlight::new(meter.in_flight.clone());
        let commands = redis.shared();
        let (sender, tasks) = mpsc::channel(concurrency);
        let (acks, handled) = Acks::channel();
        let all_handled = CancellationToken::new();
        let maintenance = Maintenance {
            queue,
            redis: commands.clone(),
            consumer: consumer.clone(),
            in_flight: in_flight.clone(),
            visibility: timing.visibility,
            renew_every: timing.renew_every,
        };
        let fetcher = Fetcher {
            queue,
            redis,
            consumer,
            timing,
            permits: Arc::new(Semaphore::new(concurrency)),
            in_flight,
            meter,
            tasks: sender,
        };
        let running = Running {
            fetcher: spawn(fetcher.fetch(stop.clone())),
            stop,
            acknowledger: spawn(ack::acknowledge_handled(queue, commands, handled, all_handled.clone())),
            all_handled,
            maintenance_task: spawn(maintenance.clone().run()),
            maintenance,
        };
        Self { tasks, acks, timing, running: Some(running), closing: None }
    }
}

#[expect(clippy::disallowed_methods, reason = "these tasks carry wake-ups, and losing one costs a sweep")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(task))
}

/// Unique for each start, so that entries of an earlier process are not taken for this one's. The process id helps
/// operators who read `XINFO CONSUMERS`.
fn consumer_name() -> String {
    let random = getrandom::u64().expect("the operating system provides randomness");
    format!("{}-{random:016x}", std::process::id())
}

impl Running {
    /// Called when no handler runs any more: stops reading, acknowledges the handled entries and releases the others.
    async fn close(mut self) {
        self.stop.cancel();
        self.all_handled.cancel();
        let queue = self.maintenance.queue.name();
        let close = async {
            // These fail only by a panic, which is already logged; fewer entries are released then.
            let _ = self.fetcher.await;
            let _ = self.acknowledger.await;
            drop(self.maintenance_task);
            self.maintenance.release_unstarted().await
        };
        match timeout(CLOSE_TIMEOUT, close).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(queue, %error, "could not release entries that were not started; they are redelivered")
            }
            Err(_) => warn!(queue, "Redis did not respond at the stop; unacknowledged entries are redelivered"),
        }
    }
}

impl Backend for StreamBackend {
    type Task = Task<Wake>;
    type Error = Infallible;

    fn poll_ready(&mut self, _: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, _: &WorkerContext) -> Poll<Option<Result<Task<Wake>, Infallible>>> {
        self.tasks.poll_recv(cx).map(|task| task.map(Ok))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        if let Some(running) = self.running.take() {
            // Tasks that were read but not started are no longer in flight, so their entries can be released.
            self.tasks.close();
            while self.tasks.try_recv().is_ok() {}
            self.closing = Some(running.close().boxed());
        }
        let closing = self.closing.as_mut().expect("closing starts with the first poll");
        closing.poll_unpin(cx).map(Ok)
    }
}

impl BackendConfig for StreamBackend {
    type Args = Wake;
    type Id = String;
    type Kind = Ephemeral;
    type Config = Timing;
    type Layer = AcknowledgeLayer<Acks>;

    fn config(&self) -> &Timing {
        &self.timing
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> Self::Layer {
        AcknowledgeLayer::new(self.acks.clone())
    }
}
