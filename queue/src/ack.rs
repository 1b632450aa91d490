//! Acknowledges handled entries in batches, which removes them from the group and the stream.

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
use crate::in_flight::InFlightEntry;
use crate::name::GROUP;
use crate::shared::Connection;

/// Entries acknowledged by one command, and acknowledgements that may be pending before handlers have to wait.
const BATCH: usize = 512;

/// Called by apalis after each handler; queues the entry for acknowledgement.
#[derive(Clone)]
pub(crate) struct Acks {
    handled: mpsc::Sender<String>,
}

impl Acks {
    /// Returns the sender, and the receiver for [`acknowledge_handled`].
    pub(crate) fn channel() -> (Self, mpsc::Receiver<String>) {
        let (handled, receiver) = mpsc::channel(BATCH);
        (Self { handled }, receiver)
    }
}

impl Acknowledge<()> for Acks {
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<(), Infallible>>;

    /// Acknowledges a handler that panicked like any other: Postgres schedules the retry of its row, and an entry
    /// redelivered every few seconds would bypass that schedule.
    fn ack(&mut self, _result: &Result<(), BoxDynError>, context: &ExecutionContext) -> Self::Future {
        let entry = context.data().get::<Arc<InFlightEntry>>().cloned();
        let handled = self.handled.clone();
        async move {
            let entry = entry.expect("the fetcher attaches the entry to every task");
            // Without a receiver the consumer has ended, and another one gets the entry.
            let _ = handled.send(entry.id.clone()).await;
            Ok(())
        }
        .boxed()
    }
}

/// Acknowledges entries until `closing`, then those still in the channel.
pub(crate) async fn acknowledge_handled(
    queue: Queue,
    mut redis: Connection,
    mut handled: mpsc::Receiver<String>,
    closing: CancellationToken,
) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        // Biased, so that the task ends only when the channel is empty.
        tokio::select! {
            biased;
            received = handled.recv_many(&mut batch, BATCH) => if received == 0 { return },
            () = closing.cancelled() => return,
        }
        let mut backoff = Backoff::new();
        while let Err(error) = acknowledge(queue, &mut redis, &batch).await {
            if closing.is_cancelled() {
                let entries = batch.len();
                warn!(queue = queue.name(), %error, entries, "not acknowledged before the stop; they are redelivered");
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

/// In one transaction: an entry acknowledged but not deleted would remain in the stream until it is trimmed.
async fn acknowledge(queue: Queue, redis: &mut Connection, ids: &[String]) -> RedisResult<()> {
    let stream = queue.stream();
    redis::pipe().atomic().xack(&stream, GROUP, ids).ignore().xdel(&stream, ids).ignore().exec_async(redis).await
}
