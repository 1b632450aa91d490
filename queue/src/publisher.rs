//! The publishing side: best effort, and never delays a request by more than a second.

use redis::aio::ConnectionLike;
use redis::{Pipeline, RedisResult};
use tokio::time::timeout;
use uuid::Uuid;

use crate::background_publisher::BackgroundPublisher;
use crate::connection::Redis;
use crate::entry::{self, ID};
use crate::name::GROUP;
use crate::pusher::{PushError, Pusher, TIMEOUT, with_timeout};
use crate::{Queue, Wake};

/// A stream without consumers that keeps one entry, to test whether Redis accepts writes.
const PROBE: Queue = Queue::new("tried");

/// The size of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Entries that no consumer has read.
    pub waiting: u64,
    /// Entries delivered to a consumer, live or dead, and not acknowledged.
    pub pending: u64,
    /// Milliseconds since the push of the oldest entry, waiting or pending, by Redis' clock; 0 without entries.
    pub oldest_age_ms: u64,
}

/// Pushes wake-ups and replies. Cheap to clone; the clones share one connection, which reconnects automatically.
#[derive(Clone)]
pub struct Publisher {
    pusher: Pusher,
    background: BackgroundPublisher,
}

impl Publisher {
    /// Connects at the first use, so Redis may be unavailable now. Must be called inside a Tokio runtime.
    pub fn connect(redis: &Redis) -> Self {
        let pusher = Pusher::connect(redis);
        Self { background: BackgroundPublisher::start(pusher.clone()), pusher }
    }

    /// Queues a wake-up to be pushed in the background. Never fails and never waits; failed pushes are logged and
    /// counted.
    pub fn post(&self, queue: Queue, wake: Wake) {
        self.background.post(queue, wake);
    }

    /// Waits until everything posted so far has been pushed or has failed, for at most two seconds. For the end of a
    /// process.
    pub async fn flush(&self) {
        let _ = timeout(2 * TIMEOUT, self.background.flush()).await;
    }

    /// Pushes all `wakes` in one round trip. After an error, some of them may have been pushed.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second.
    pub async fn push(&self, queue: Queue, wakes: &[Wake]) -> Result<(), PushError> {
        let wakes: Vec<_> = wakes.iter().map(|wake| (queue, wake.clone())).collect();
        self.pusher.push(&wakes, &[]).await
    }

    /// Notifies the process that listens on `channel` ([`crate::Replies`]) that the row `id` has changed.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second. A channel without a listener is not an error.
    pub async fn reply(&self, channel: &str, id: Uuid) -> Result<(), PushError> {
        self.pusher.push(&[], &[(channel.to_owned(), id)]).await
    }

    /// Queues a reply to be sent in the background. Never fails and never waits; failures are logged.
    pub fn post_reply(&self, channel: String, id: Uuid) {
        self.background.post_reply(channel, id);
    }

    /// Checks that Redis accepts writes, by writing: a replica, or a Redis that is full, responds but rejects them.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second.
    pub async fn ping(&self) -> Result<(), PushError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("XADD").arg(PROBE.stream()).arg("MAXLEN").arg(1).arg("*").arg(ID).arg("").ignore();
        self.pusher.execute(&pipeline).await
    }

    /// Redis' time, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second.
    pub async fn time(&self) -> Result<u64, PushError> {
        let mut redis = self.pusher.redis.clone();
        with_timeout(async move {
            let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut redis).await?;
            Ok(seconds * 1_000 + micros / 1_000)
        })
        .await
    }

    /// The size of `queue`. An unused queue is empty.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second.
    pub async fn depth(&self, queue: Queue) -> Result<Depth, PushError> {
        with_timeout(depth(self.pusher.redis.clone(), queue)).await
    }
}

async fn depth(mut redis: impl ConnectionLike, queue: Queue) -> RedisResult<Depth> {
    let stream = queue.stream();
    // Response of XRANGE: the oldest entry, if any.
    type Oldest = Vec<entry::Entry>;
    let (length, oldest, (seconds, micros)): (u64, Oldest, (u64, u64)) =
        redis::pipe().xlen(&stream).xrange_count(&stream, "-", "+", 1).cmd("TIME").query_async(&mut redis).await?;
    let now_ms = seconds * 1_000 + micros / 1_000;
    let pushed_ms = oldest.first().and_then(|entry| entry::millis(&entry.id));
    let pending = pending(&mut redis, &stream).await?;
    Ok(Depth {
        // Entries are deleted in the transaction that acknowledges them, so the stream holds only waiting and pending
        // ones.
        waiting: length.saturating_sub(pending),
        pending,
        oldest_age_ms: pushed_ms.map_or(0, |pushed_ms| now_ms.saturating_sub(pushed_ms)),
    })
}

/// The number of pending entries; 0 without a group.
async fn pending(redis: &mut impl ConnectionLike, stream: &str) -> RedisResult<u64> {
    type Summary = (u64, Option<String>, Option<String>, Option<Vec<(String, u64)>>);
    let summary: RedisResult<Summary> = redis::cmd("XPENDING").arg(stream).arg(GROUP).query_async(redis).await;
    match summary {
        Ok((pending, ..)) => Ok(pending),
        Err(error) if error.code() == Some("NOGROUP") => Ok(0),
        Err(error) => Err(error),
    }
}
