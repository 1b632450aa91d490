//! Notifies waiting requests that their row has changed: one subscription per process, and a map of waiters by row id.
//!
//! Messages may be lost, so a reply is only a hint to read Postgres again, and waiters also poll without one.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::PubSub;
use redis::{Msg, RedisError, Value};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::connection::{Redis, within};

/// After this long without a message the connection is pinged: a subscriber only reads, so it would not notice that the
/// server is gone.
const PING_AFTER: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// The Redis channel of replies.
pub(crate) fn key(channel: &str) -> String {
    format!("reply:{channel}")
}

/// Listens for replies to this process. Cheap to clone; listening ends with the last clone.
#[derive(Clone)]
pub struct Replies {
    waiters: Waiters,
    _listener: Arc<AbortOnDropHandle<()>>,
}

impl Replies {
    /// Listens on `channel`, which must belong to this process alone, and reconnects indefinitely. Must be called
    /// inside a Tokio runtime.
    pub fn start(redis: &Redis, channel: &str) -> Self {
        let waiters = Waiters::default();
        #[expect(clippy::disallowed_methods, reason = "replies are hints and may be lost")]
        let listener = tokio::spawn(listen(redis.clone(), key(channel), waiters.clone()));
        Self { waiters, _listener: Arc::new(AbortOnDropHandle::new(listener)) }
    }

    /// Registers a waiter for replies about `id`. Register before pushing: earlier replies are not received. Several
    /// waiters may register for one id.
    pub fn register(&self, id: Uuid) -> Waiter {
        Waiter { id, replies: self.waiters.subscribe(id), waiters: self.waiters.clone() }
    }
}

/// Waits for replies about one id. Dropping it removes the registration.
pub struct Waiter {
    id: Uuid,
    replies: watch::Receiver<()>,
    waiters: Waiters,
}

impl Waiter {
    /// Resolves when the row should be read again: a reply arrived since the last call (or since the registration), or
    /// the subscription was restored and replies may have been missed.
    pub async fn notified(&mut self) {
        self.replies.changed().await.expect("the map keeps the sender while a waiter is registered");
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters.unsubscribe(self.id);
    }
}

/// The waiters by row id.
#[derive(Clone, Default)]
struct Waiters {
    by_id: Arc<Mutex<HashMap<Uuid, watch::Sender<()>>>>,
}

impl Waiters {
    fn subscribe(&self, id: Uuid) -> watch::Receiver<()> {
        self.lock().entry(id).or_default().subscribe()
    }

    /// Called by a waiter while its receiver still exists, so a count of one means the last waiter.
    fn unsubscribe(&self, id: Uuid) {
        let mut by_id = self.lock();
        if by_id.get(&id).is_some_and(|sender| sender.receiver_count() == 1) {
            by_id.remove(&id);
        }
    }

    fn wake(&self, id: Uuid) {
        if let Some(sender) = self.lock().get(&id) {
            sender.send_replace(());
        }
    }

    fn wake_all(&self) {
        for sender in self.lock().values() {
            sender.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, watch::Sender<()>>> {
        // A panic under this lock cannot leave the map inconsistent.
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Subscribes and listens, and reconnects whenever that fails.
async fn listen(redis: Redis, channel: String, waiters: Waiters) {
    let mut backoff = Backoff::new();
    let mut failing = false;
    loop {
        let error = match redis.subscribed(&channel).await {
            Ok(subscription) => {
                if failing {
                    info!("listening for replies again");
                }
                failing = false;
                backoff.reset();
                waiters.wake_all();
                receive(subscription, &waiters).await
            }
            Err(error) => error,
        };
        if !failing {
            warn!(%error, "listening for replies failed; reconnecting until it works");
        }
        failing = true;
        sleep(backoff.next()).await;
    }
}

/// Wakes waiters until the subscription fails; returns the error.
async fn receive(subscription: PubSub, waiters: &Waiters) -> RedisError {
    let (mut sink, mut messages) = subscription.split();
    loop {
        match timeout(PING_AFTER, messages.next()).await {
            Ok(Some(message)) => wake(&message, waiters),
            Ok(None) => return io::Error::from(io::ErrorKind::UnexpectedEof).into(),
            Err(_) => {
                if let Err(error) = within(PING_TIMEOUT, sink.ping::<Value>()).await {
                    return error;
                }
            }
        }
    }
}

/// Ignores messages that are not an id: any client of Redis can publish here.
fn wake(message: &Msg, waiters: &Waiters) {
    if let Ok(id) = Uuid::try_parse_ascii(message.get_payload_bytes()) {
        waiters.wake(id);
    }
}
