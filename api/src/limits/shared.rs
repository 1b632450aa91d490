//! The bucket in Redis: GCRA, atomic in one script, on Redis' clock, so that no process's clock counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::accounts::Rate;
use redis::Script;

use super::{Policy, Verdict};

/// Redis answers within this, or the process limits by itself.
const TIMEOUT: Duration = Duration::from_millis(250);
/// After a failure Redis is left alone for so long, so that requests do not queue up before a dead server.
const REST: Duration = Duration::from_secs(1);

/// The state is one number, the theoretical arrival time of the next request, in microseconds. It answers whether this one
/// is allowed, how many more are, and after how many microseconds the state changes for the better.
const GCRA: &str = r"
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local step = math.floor(1000000 / tonumber(ARGV[1]))
local span = step * tonumber(ARGV[2])
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local left = span - (tat + step - now)
if left < 0 then
    return {0, 0, -left}
end
tat = tat + step
redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000) + 1)
return {1, math.floor(left / step), tat - now}
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
    pub(super) async fn take(&self, key: &str, rate: Rate) -> Option<Verdict> {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        if now_ms < self.rests_until.load(Ordering::Relaxed) {
            return None;
        }
        let mut redis = self.redis.clone();
        let mut call = self.script.key(format!("limit:{key}"));
        call.arg(rate.per_second).arg(rate.burst);
        let asked = call.invoke_async::<(u8, u32, u64)>(&mut redis);
        match tokio::time::timeout(TIMEOUT, asked).await {
            Ok(Ok((allowed, remaining, reset_us))) => Some(Verdict {
                policy: Policy::Key,
                rate,
                allowed: allowed == 1,
                remaining,
                reset_ms: reset_us.div_ceil(1000),
            }),
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
