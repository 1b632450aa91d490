//! The connection for pushes: best effort, within a second.

use std::time::Duration;

use redis::{Pipeline, RedisError, RedisResult};
use tokio::time::timeout;
use uuid::Uuid;

use crate::connection::Redis;
use crate::entry::{ID, REQUEST_ID};
use crate::shared::{self, Connection};
use crate::{Queue, Wake, replies};

/// Limit of every call, whatever Redis does.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// Approximate limit of a stream. Older entries are dropped; the sweep enqueues their rows.
const STREAM_MAX: usize = 100_000;

/// Redis did not confirm the command. A lost wake-up is only delayed until the next sweep.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Redis is unavailable, or rejected the command.
    #[error("Redis did not execute the command: {0}")]
    Redis(#[from] RedisError),
    /// Redis did not respond within a second. It may still have executed the command.
    #[error("Redis did not respond within a second")]
    Timeout,
}

/// The connection for pushes.
#[derive(Clone)]
pub(crate) struct Pusher {
    pub(crate) redis: Connection,
}

impl Pusher {
    pub(crate) fn connect(redis: &Redis) -> Self {
        Self { redis: redis.shared() }
    }

    /// Pushes wake-ups, and sends replies about rows to channels, in one round trip.
    pub(crate) async fn push(&self, wakes: &[(Queue, Wake)], replies: &[(String, Uuid)]) -> Result<(), PushError> {
        if wakes.is_empty() && replies.is_empty() {
            return Ok(());
        }
        let mut pipeline = Pipeline::with_capacity(wakes.len() + replies.len());
        for (channel, id) in replies {
            pipeline.publish(replies::key(channel), id.hyphenated().to_string()).ignore();
        }
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

    /// Tries twice: the first attempt may find that the idle connection has died, or that its server has become a
    /// replica; the second then uses a new connection. Executing a command twice is harmless here.
    pub(crate) async fn execute(&self, pipeline: &Pipeline) -> Result<(), PushError> {
        with_timeout(async {
            let mut redis = self.redis.clone();
            match pipeline.exec_async(&mut redis).await {
                Err(error) if error.is_unrecoverable_error() || shared::is_from_replica(&error) => {
                    pipeline.exec_async(&mut redis).await
                }
                result => result,
            }
        })
        .await
    }
}

pub(crate) async fn with_timeout<T>(command: impl Future<Output = RedisResult<T>>) -> Result<T, PushError> {
    match timeout(TIMEOUT, command).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(PushError::Timeout),
    }
}
