//! The buckets in Redis: taken from atomically in one script, on Redis' clock, so that no process's clock counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::Script;

use super::{Bucket, Taken};

/// Redis answers within this, or the process limits by itself.
const TIMEOUT: Duration = Duration::from_millis(250);
/// After a failure Redis is left alone for so long, so that requests do not queue up before a dead server.
const REST: Duration = Duration::from_secs(1);

/// The state of a bucket is one number, the theoretical arrival time of its next request, in microseconds. The first ARGV[1] keys
/// are to be taken from, the others are given back to. Answers 0, what the last has left, and after how many microseconds it
/// is full; or the number of the first that had nothing, 0, and after how many microseconds it has one.
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

#[derive(Clone)]
pub(super) struct Shared {
    redis: queue::Connection,
    script: Arc<Script>,
    began: Instant,
    /// Milliseconds since `began` until which Redis is left alone.
    rests_until: Arc<AtomicU64>,
}

impl Shared {
    pub(super) fn connect(redis: &queue::Redis) -> Self {
        let (redis, script) = (redis.hasty(TIMEOUT), Arc::new(Script::new(GCRA)));
        Self { redis, script, began: Instant::now(), rests_until: Arc::default() }
    }

    /// `None`: Redis is away.
    pub(super) async fn exchange(&self, take: &[Bucket], give_back: &[Bucket]) -> Option<Taken> {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        if now_ms < self.rests_until.load(Ordering::Relaxed) {
            return None;
        }
        let mut redis = self.redis.clone();
        let mut call = self.script.prepare_invoke();
        call.arg(take.len());
        for bucket in take.iter().chain(give_back) {
            call.key(format!("limit:{}", bucket.name)).arg(bucket.step_us).arg(bucket.burst);
        }
        let asked = call.invoke_async::<(usize, u32, u64)>(&mut redis);
        match tokio::time::timeout(TIMEOUT, asked).await {
            Ok(Ok((0, remaining, full_in_us))) => Some(Taken::Allowed { remaining, full_in_us }),
            Ok(Ok((number, _, wait_us))) => Some(Taken::Refused { by: number - 1, wait_us }),
            Ok(Err(_)) | Err(_) => {
                let rest = u64::try_from(REST.as_millis()).unwrap_or(0);
                self.rests_until.store(now_ms + rest, Ordering::Relaxed);
                metrics::counter!("rate_limits_unshared_total").increment(1);
                tracing::warn!("Redis did not keep the rate limits; this process keeps its own for a second");
                None
            }
        }
    }
}
