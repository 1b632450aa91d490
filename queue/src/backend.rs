//! The queue as apalis sees it: a [`Backend`] that yields wake-ups and never an error.

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
use crate::keeper::Keeper;
use crate::meter::Meter;
use crate::{Queue, Timing, Wake};

/// The last acknowledgements get this long when Redis does not answer; the entries would only come again.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// One consumer of one queue: three tasks that read, acknowledge and keep, and the channel that brings what was read.
pub(crate) struct StreamBackend {
    tasks: mpsc::Receiver<Task<Wake>>,
    acks: Acks,
    timing: Timing,
    running: Option<Running>,
    closing: Option<BoxFuture<'static, ()>>,
}

/// What runs beside the worker. Dropping it ends the tasks.
struct Running {
    stop: CancellationToken,
    fetcher: AbortOnDropHandle<()>,
    /// Set when no more acknowledgements will come.
    settled: CancellationToken,
    settler: AbortOnDropHandle<()>,
    keeping: AbortOnDropHandle<()>,
    keeper: Keeper,
}

impl StreamBackend {
    /// Begins to read, for at most `concurrency` entries at a time, until `stop`. Must be called inside a Tokio
    /// runtime.
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
        let settled = CancellationToken::new();
        let keeper = Keeper {
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
            settler: spawn(ack::settle(queue, commands, handled, settled.clone())),
            settled,
            keeping: spawn(keeper.clone().keep()),
            keeper,
        };
        Self { tasks, acks, timing, running: Some(running), closing: None }
    }
}

#[expect(clippy::disallowed_methods, reason = "these tasks carry wake-ups, and losing one costs a sweep")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(task))
}

/// Different at every start, since what a dead process held must not look like this one's. The process id is for
/// whoever reads `XINFO CONSUMERS`.
fn consumer_name() -> String {
    let random = getrandom::u64().expect("the system has randomness, or nothing here could be trusted");
    format!("{}-{random:016x}", std::process::id())
}

impl Running {
    /// Called when no handler runs any more: reads no more, acknowledges the rest, gives back what was not begun.
    async fn close(mut self) {
        self.stop.cancel();
        self.settled.cancel();
        let queue = self.keeper.queue.name();
        let close = async {
            // Neither can fail but by a panic, which has been reported, and then there is only less to give back.
            let _ = self.fetcher.await;
            let _ = self.settler.await;
            drop(self.keeping);
            self.keeper.give_back().await
        };
        match timeout(CLOSE_TIMEOUT, close).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(queue, %error, "what was not begun could not be given back; it comes again"),
            Err(_) => warn!(queue, "Redis did not answer at the stop; what was not acknowledged comes again"),
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
            // What was read and not begun is no longer held, so it can be given back.
            self.tasks.close();
            while self.tasks.try_recv().is_ok() {}
            self.closing = Some(running.close().boxed());
        }
        let closing = self.closing.as_mut().expect("closing begins with the first poll");
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
