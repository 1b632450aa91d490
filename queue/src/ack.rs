//! Acknowledging: what was handled leaves the group and the stream, many entries at a time.

use std::convert::Infallible;
use std::sync::Arc;

use apalis_core::error::BoxDynError;
use apalis_core::task::ExecutionContext;
use apalis_core::worker::ext::ack::Acknowledge;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::RedisResult;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::Queue;
use crate::backoff::Backoff;
use crate::in_flight::Held;
use crate::name::GROUP;
use crate::shared::Connection;

/// Most entries in one command. Also how many acknowledgements may wait before handlers have to.
const BATCH: usize = 512;

/// What apalis calls after each handler: notes the entry as handled.
#[derive(Clone)]
pub(crate) struct Acks {
    handled: mpsc::Sender<String>,
}

impl Acks {
    /// The sending half, and the half [`settle`] reads.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<String>) {
        let (handled, receiver) = mpsc::channel(BATCH);
        (Self { handled }, receiver)
    }
}

impl Acknowledge<()> for Acks {
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<(), Infallible>>;

    /// A handler that panicked is acknowledged like any other: when its row is tried again is for Postgres to say, and
    /// an entry which came back every few seconds for ever would say it instead.
    fn ack(&mut self, _answer: &Result<(), BoxDynError>, context: &ExecutionContext) -> Self::Future {
        let held = context.data().get::<Arc<Held>>().cloned();
        let handled = self.handled.clone();
        async move {
            let held = held.expect("the fetcher puts what is held into every task");
            // Where nobody receives any more, the consumer is gone and the entry comes again elsewhere.
            let _ = handled.send(held.id.clone()).await;
            Ok(())
        }
        .boxed()
    }
}

/// Acknowledges until `closing`, and then once more what has come by then.
pub(crate) async fn settle(
    queue: Queue,
    mut redis: Connection,
    mut handled: mpsc::Receiver<String>,
    closing: CancellationToken,
) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        // Biased, so that closing is seen only when nothing waits.
        tokio::select! {
            biased;
            received = handled.recv_many(&mut batch, BATCH) => if received == 0 { return },
            () = closing.cancelled() => return,
        }
        let mut backoff = Backoff::new();
        while let Err(error) = acknowledge(queue, &mut redis, &batch).await {
            if closing.is_cancelled() {
                let entries = batch.len();
                warn!(queue = queue.name(), %error, entries, "not acknowledged before the stop; they will come again");
                return;
            }
            tokio::select! {
                () = sleep(backoff.next()) => {}
                () = closing.cancelled() => {}
            }
        }
        batch.clear();
    }
}

/// Both or neither: an entry acknowledged but not deleted would lie in the stream until it is trimmed.
async fn acknowledge(queue: Queue, redis: &mut Connection, ids: &[String]) -> RedisResult<()> {
    let stream = queue.stream();
    redis::pipe().atomic().xack(&stream, GROUP, ids).ignore().xdel(&stream, ids).ignore().exec_async(redis).await
}
