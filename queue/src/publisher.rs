//! The publishing side: best effort, and never in a request's way for longer than a second.

use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Pipeline, RedisError, RedisResult};
use tokio::time::timeout;
use uuid::Uuid;

use crate::connection::Redis;
use crate::entry::{self, ID, REQUEST_ID};
use crate::name::GROUP;
use crate::poster::Poster;
use crate::replies;
use crate::shared::{self, Connection};
use crate::{Queue, Wake};

/// Most that any call may take, whatever Redis does.
const LIMIT: Duration = Duration::from_secs(1);
/// Most entries a stream keeps, about. The oldest beyond it are dropped; the sweep brings them back.
const STREAM_MAX: usize = 100_000;
/// Its stream keeps one entry, which nobody reads: by it is seen whether Redis takes any.
const TRIED: Queue = Queue::new("tried");

/// Redis did not take it. For a wake-up that costs a sweep, no more.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Redis is away, or refused.
    #[error("Redis did not take the command: {0}")]
    Redis(#[from] RedisError),
    /// Redis did not answer within a second. It may still have taken it.
    #[error("Redis did not answer within a second")]
    Timeout,
}

/// How much lies in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Entries no consumer has read yet.
    pub waiting: u64,
    /// Entries a consumer holds, living or dead.
    pub pending: u64,
    /// Milliseconds since the oldest entry, waiting or pending, was pushed, by Redis' clock; 0 if there is none.
    pub oldest_age_ms: u64,
}

/// Pushes wake-ups and replies. Cheap to clone; the clones share one connection, which comes back by itself.
#[derive(Clone)]
pub struct Publisher {
    pusher: Pusher,
    poster: Poster,
}

/// The connection, and what can be done with it.
#[derive(Clone)]
pub(crate) struct Pusher {
    redis: Connection,
}

impl Publisher {
    /// Connects when first used, so Redis may be away. Must be called inside a Tokio runtime.
    pub fn connect(redis: &Redis) -> Self {
        let pusher = Pusher { redis: redis.shared() };
        Self { poster: Poster::start(pusher.clone()), pusher }
    }

    /// Puts a wake-up down to be pushed by and by, at once if nothing is on its way. It never fails and never waits; a
    /// push that fails is logged and counted.
    pub fn post(&self, queue: Queue, wake: Wake) {
        self.poster.post(queue, wake);
    }

    /// Resolves when all that was posted before has been pushed, or could not be: at the end of a process. Within two seconds.
    pub async fn flush(&self) {
        let _ = timeout(2 * LIMIT, self.poster.flush()).await;
    }

    /// Appends all `wakes` in one round trip. After an error, some of them may have been taken.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second.
    pub async fn push(&self, queue: Queue, wakes: &[Wake]) -> Result<(), PushError> {
        let wakes: Vec<_> = wakes.iter().map(|wake| (queue, wake.clone())).collect();
        self.pusher.push(&wakes).await
    }

    /// Tells the process that listens on `channel` ([`crate::Replies`]) to look at the row `id` again.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second. That nobody listens is not an error.
    pub async fn reply(&self, channel: &str, id: Uuid) -> Result<(), PushError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.publish(replies::key(channel), id.hyphenated().to_string()).ignore();
        self.pusher.execute(&pipeline).await
    }

    /// Whether Redis takes what is pushed. It is tried: a replica, or a Redis that is full, answers and takes nothing.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second.
    pub async fn ping(&self) -> Result<(), PushError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("XADD").arg(TRIED.stream()).arg("MAXLEN").arg(1).arg("*").arg(ID).arg("").ignore();
        self.pusher.execute(&pipeline).await
    }

    /// What time it is for Redis, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second.
    pub async fn time(&self) -> Result<u64, PushError> {
        let mut redis = self.pusher.redis.clone();
        within_limit(async move {
            let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut redis).await?;
            Ok(seconds * 1_000 + micros / 1_000)
        })
        .await
    }

    /// How much lies in `queue`. A queue nobody has used yet is empty.
    ///
    /// # Errors
    ///
    /// [`PushError`], within a second.
    pub async fn depth(&self, queue: Queue) -> Result<Depth, PushError> {
        within_limit(depth(self.pusher.redis.clone(), queue)).await
    }
}

impl Pusher {
    pub(crate) async fn push(&self, wakes: &[(Queue, Wake)]) -> Result<(), PushError> {
        if wakes.is_empty() {
            return Ok(());
        }
        let mut pipeline = Pipeline::with_capacity(wakes.len());
        for (queue, wake) in wakes {
            pipeline.cmd("XADD").arg(queue.stream()).arg("MAXLEN").arg("~").arg(STREAM_MAX).arg("*");
            pipeline.arg(ID).arg(wake.id.hyphenated().to_string());
            if let Some(request_id) = wake.short_request_id() {
                pipeline.arg(REQUEST_ID).arg(request_id);
            }
            pipeline.ignore();
        }
        self.execute(&pipeline).await
    }

    /// Tries twice: the first attempt may find that the connection died while nobody used it, or leads to what is a replica
    /// by now, and the second has a new one. What is done twice by this does no harm.
    async fn execute(&self, pipeline: &Pipeline) -> Result<(), PushError> {
        within_limit(async {
            let mut redis = self.redis.clone();
            match pipeline.exec_async(&mut redis).await {
                Err(error) if error.is_unrecoverable_error() || shared::is_from_replica(&error) => {
                    pipeline.exec_async(&mut redis).await
                }
                done => done,
            }
        })
        .await
    }
}

async fn within_limit<T>(command: impl Future<Output = RedisResult<T>>) -> Result<T, PushError> {
    match timeout(LIMIT, command).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(PushError::Timeout),
    }
}

async fn depth(mut redis: impl ConnectionLike, queue: Queue) -> RedisResult<Depth> {
    let stream = queue.stream();
    // What XRANGE answers: the oldest entry, if any.
    type Oldest = Vec<entry::Entry>;
    let (length, oldest, (seconds, micros)): (u64, Oldest, (u64, u64)) =
        redis::pipe().xlen(&stream).xrange_count(&stream, "-", "+", 1).cmd("TIME").query_async(&mut redis).await?;
    let now_ms = seconds * 1_000 + micros / 1_000;
    let pushed_ms = oldest.first().and_then(|entry| entry::millis(&entry.id));
    let pending = pending(&mut redis, &stream).await?;
    Ok(Depth {
        // What is acknowledged is deleted in the same breath, so the stream holds the waiting and the pending and
        // nothing else.
        waiting: length.saturating_sub(pending),
        pending,
        oldest_age_ms: pushed_ms.map_or(0, |pushed_ms| now_ms.saturating_sub(pushed_ms)),
    })
}

/// Without a group nobody has read anything.
async fn pending(redis: &mut impl ConnectionLike, stream: &str) -> RedisResult<u64> {
    type Summary = (u64, Option<String>, Option<String>, Option<Vec<(String, u64)>>);
    let summary: RedisResult<Summary> = redis::cmd("XPENDING").arg(stream).arg(GROUP).query_async(redis).await;
    match summary {
        Ok((pending, ..)) => Ok(pending),
        Err(error) if error.code() == Some("NOGROUP") => Ok(0),
        Err(error) => Err(error),
    }
}
