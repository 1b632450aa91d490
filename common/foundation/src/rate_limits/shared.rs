//! The shared buckets: a script updates them atomically in Redis, by Redis' clock, so the clocks of processes do not
//! matter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::{RedisResult, Script};

use super::{Acquisition, Bucket};

/// After a failure, Redis is not used for this long, so that requests do not queue for a failed server.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The state of a bucket is the theoretical arrival time of its next request, in microseconds. Tokens are acquired from
/// the first ARGV[1] keys and restored to the others. Returns 0, the tokens left in the last bucket, and the
/// microseconds until it is full; or the number of the first empty bucket, 0, and the microseconds until it has a
/// token.
const GCRA: &str = r"
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local count = tonumber(ARGV[1])
local function step(i) return tonumber(ARGV[2 * i]) end
local function keep(i, tat)
    redis.call('SET', KEYS[i], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000) + 1)
end
for i = count + 1, #KEYS do
    local tat = tonumber(redis.call('GET', KEYS[i]) or '0') - step(i)
    if tat > now then keep(i, tat) else redis.call('DEL', KEYS[i]) end
end
local tats, left = {}, 0
for i = 1, count do
    tats[i] = math.max(tonumber(redis.call('GET', KEYS[i]) or '0'), now) + step(i)
    left = step(i) * tonumber(ARGV[2 * i + 1]) - (tats[i] - now)
    if left < 0 then return {i, 0, -left} end
end
for i = 1, count do keep(i, tats[i]) end
if count == 0 then return {0, 0, 0} end
return {0, math.floor(left / step(count)), tats[count] - now}
";

fn key(name: &str) -> String {
    format!("limit:{name}")
}

#[derive(Clone)]
pub(super) struct SharedBuckets {
    redis: queue::Connection,
    script: Arc<Script>,
    timeout: Duration,
    began: Instant,
    /// Milliseconds since `began` until which Redis is not used.
    retry_at_ms: Arc<AtomicU64>,
}

impl SharedBuckets {
    pub(super) fn connect(redis: &queue::Redis, timeout: Duration) -> Self {
        let (redis, script) = (redis.connection_with_timeout(timeout), Arc::new(Script::new(GCRA)));
        Self { redis, script, timeout, began: Instant::now(), retry_at_ms: Arc::default() }
    }

    /// `None` if Redis is unavailable.
    pub(super) async fn restore_and_acquire(&self, acquire: &[Bucket], restore: &[Bucket]) -> Option<Acquisition> {
        let mut redis = self.redis.clone();
        let mut call = self.script.prepare_invoke();
        call.arg(acquire.len());
        for bucket in acquire.iter().chain(restore) {
            call.key(key(&bucket.name)).arg(bucket.step_us).arg(bucket.burst);
        }
        Some(match self.response(call.invoke_async::<(usize, u32, u64)>(&mut redis)).await? {
            (0, remaining, full_in_us) => Acquisition::Allowed { remaining, full_in_us },
            (number, _, wait_us) => Acquisition::Refused { by: number - 1, wait_us },
        })
    }

    /// Stores a mark for this long. Whether it is stored.
    pub(super) async fn mark(&self, name: &str, lifetime: Duration) -> bool {
        let (mut redis, mut command) = (self.redis.clone(), redis::cmd("SET"));
        command.arg(key(name)).arg(1).arg("EX").arg(lifetime.as_secs());
        self.response(command.query_async::<()>(&mut redis)).await.is_some()
    }

    /// Whether there is such a mark. `None` if Redis is unavailable.
    pub(super) async fn is_marked(&self, name: &str) -> Option<bool> {
        let (mut redis, mut command) = (self.redis.clone(), redis::cmd("GET"));
        command.arg(key(name));
        let found = self.response(command.query_async::<Option<u8>>(&mut redis)).await?;
        Some(found.is_some())
    }

    pub(super) async fn remove_mark(&self, name: &str) {
        let (mut redis, mut command) = (self.redis.clone(), redis::cmd("DEL"));
        command.arg(key(name));
        self.response(command.query_async::<u8>(&mut redis)).await;
    }

    /// `None` if Redis is unavailable.
    async fn response<T>(&self, response: impl Future<Output = RedisResult<T>>) -> Option<T> {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        if now_ms < self.retry_at_ms.load(Ordering::Relaxed) {
            return None;
        }
        match tokio::time::timeout(self.timeout, response).await {
            Ok(Ok(response)) => Some(response),
            Ok(Err(_)) | Err(_) => {
                let delay = u64::try_from(RETRY_DELAY.as_millis()).unwrap_or(0);
                self.retry_at_ms.store(now_ms + delay, Ordering::Relaxed);
                metrics::counter!("rate_limits_unshared_total").increment(1);
                tracing::warn!(
                    "rate limits could not be checked in Redis; using the limits of this process for a second"
                );
                None
            }
        }
    }
}
