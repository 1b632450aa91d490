//! Writes the log of requests that merchants see: in batches, off the path of the request. Entries may be lost with the
//! process.

use std::time::Duration;

use domain::requests::{self, Entry};
use sqlx::PgPool;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Entries that wait to be written. Further ones are dropped and counted.
const BUFFER: usize = 10_000;
/// Entries of a statement.
const BATCH: usize = 1_000;
/// The pause between two statements, in which a batch gathers.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a stop waits for the last entries.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// The length of a path that is stored.
const MAX_PATH: usize = 200;

enum Message {
    Entry(Box<Entry>),
    /// The sender is notified when all earlier entries are written.
    Flush(oneshot::Sender<()>),
}

/// Writes entries from one task of the process.
pub(crate) struct Recorder(Sender<Message>);

impl Recorder {
    /// Writes to this database until it is dropped. Requires a runtime.
    #[expect(clippy::disallowed_methods, reason = "a log for people, of which entries may be lost with the process")]
    pub(crate) fn start(db: PgPool) -> Self {
        metrics::counter!("request_log_dropped_total").increment(0);
        let (sender, receiver) = channel(BUFFER);
        tokio::spawn(write_all(db, receiver));
        Self(sender)
    }

    /// Records a request without waiting.
    pub(crate) fn record(&self, mut entry: Entry) {
        if let Some((end, _)) = entry.path.char_indices().nth(MAX_PATH) {
            entry.path.truncate(end);
        }
        if self.0.try_send(Message::Entry(Box::new(entry))).is_err() {
            metrics::counter!("request_log_dropped_total").increment(1);
        }
    }

    /// Waits until what was recorded is written, for a few seconds at most.
    pub(crate) async fn flush(&self) {
        let (sender, written) = oneshot::channel();
        let flushed = async {
            if self.0.send(Message::Flush(sender)).await.is_ok() {
                // An error means that the task has ended with the runtime.
                let _ = written.await;
            }
        };
        if timeout(FLUSH_TIMEOUT, flushed).await.is_err() {
            tracing::warn!("the request log could not be written in time");
        }
    }
}

async fn write_all(db: PgPool, mut receiver: Receiver<Message>) {
    let mut messages = Vec::with_capacity(BATCH);
    while receiver.recv_many(&mut messages, BATCH).await > 0 {
        let (mut entries, mut waiting) = (Vec::with_capacity(messages.len()), Vec::new());
        for message in messages.drain(..) {
            match message {
                Message::Entry(entry) => entries.push(*entry),
                Message::Flush(sender) => waiting.push(sender),
            }
        }
        if !entries.is_empty()
            && let Err(error) = requests::write(&db, &entries).await
        {
            metrics::counter!("request_log_dropped_total").increment(entries.len() as u64);
            tracing::warn!(%error, entries = entries.len(), "entries of the request log could not be written");
        }
        if waiting.is_empty() && entries.len() < BATCH {
            sleep(PAUSE).await;
        }
        for sender in waiting {
            // The caller no longer waits.
            let _ = sender.send(());
        }
    }
}
