//! How a waiting request learns that its row has changed: one subscription per process, and a map of who waits for
//! what.
//!
//! Messages may be lost, so a reply is a hint to read Postgres again, and whoever waits also reads it now and then
//! without one.

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

/// After this long without a message the connection is asked whether it is still one: a subscriber never writes, and so
/// would never learn that the other side is gone.
const QUIET: Duration = Duration::from_secs(5);
/// How long the answer may take.
const PONG: Duration = Duration::from_secs(4);

/// Name in Redis of a channel of replies.
pub(crate) fn key(channel: &str) -> String {
    format!("reply:{channel}")
}

/// Listens for replies to this process. Cheap to clone; listening ends with the last clone.
#[derive(Clone)]
pub struct Replies {
    waiting: Waiting,
    _listener: Arc<AbortOnDropHandle<()>>,
}

impl Replies {
    /// Listens on `channel`, which is to be this process' own, and reconnects for ever. Must be called inside a Tokio
    /// runtime.
    pub fn start(redis: &Redis, channel: &str) -> Self {
        let waiting = Waiting::default();
        #[expect(clippy::disallowed_methods, reason = "replies are hints and may be lost")]
        let listener = tokio::spawn(listen(redis.clone(), key(channel), waiting.clone()));
        Self { waiting, _listener: Arc::new(AbortOnDropHandle::new(listener)) }
    }

    /// Waits for replies about `id`. Register before pushing: what is said before that is not heard. Several may wait
    /// for one id.
    pub fn register(&self, id: Uuid) -> Waiter {
        Waiter { id, replies: self.waiting.subscribe(id), waiting: self.waiting.clone() }
    }
}

/// One who waits for replies about one id. Dropping it ends the waiting.
pub struct Waiter {
    id: Uuid,
    replies: watch::Receiver<()>,
    waiting: Waiting,
}

impl Waiter {
    /// Resolves when the row is worth reading again: a reply came since the last call (or since the registration), or
    /// the subscription was made anew and replies may have been missed.
    pub async fn woken(&mut self) {
        self.replies.changed().await.expect("the map keeps the sender for as long as someone waits");
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiting.leave(self.id);
    }
}

/// Who waits for what.
#[derive(Clone, Default)]
struct Waiting {
    by_id: Arc<Mutex<HashMap<Uuid, watch::Sender<()>>>>,
}

impl Waiting {
    fn subscribe(&self, id: Uuid) -> watch::Receiver<()> {
        self.lock().entry(id).or_default().subscribe()
    }

    /// Called by a waiter while it still holds its receiver.
    fn leave(&self, id: Uuid) {
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
        // Nothing under this lock can leave the map half changed.
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Subscribes, listens, and begins again whenever that ends.
async fn listen(redis: Redis, channel: String, waiting: Waiting) {
    let mut backoff = Backoff::new();
    let mut away = false;
    loop {
        let lost = match redis.subscribed(&channel).await {
            Ok(subscription) => {
                if away {
                    info!("listening for replies again");
                }
                away = false;
                backoff.reset();
                waiting.wake_all();
                receive(subscription, &waiting).await
            }
            Err(error) => error,
        };
        if !away {
            warn!(error = %lost, "listening for replies failed; reconnecting until it works");
        }
        away = true;
        sleep(backoff.next()).await;
    }
}

/// Wakes waiters until the subscription is lost; answers why it was.
async fn receive(subscription: PubSub, waiting: &Waiting) -> RedisError {
    let (mut sink, mut messages) = subscription.split();
    loop {
        match timeout(QUIET, messages.next()).await {
            Ok(Some(message)) => wake_named(&message, waiting),
            Ok(None) => return io::Error::from(io::ErrorKind::UnexpectedEof).into(),
            Err(_) => {
                if let Err(error) = within(PONG, sink.ping::<Value>()).await {
                    return error;
                }
            }
        }
    }
}

/// Anyone may publish anything; what is no id is nobody's reply.
fn wake_named(message: &Msg, waiting: &Waiting) {
    if let Ok(id) = Uuid::try_parse_ascii(message.get_payload_bytes()) {
        waiting.wake(id);
    }
}
