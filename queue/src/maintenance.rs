//! Maintains a consumer group: renews entries in flight, releases entries that were never started, and deletes dead
//! consumers.

use std::time::Duration;

use redis::{RedisResult, Script, Value};
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use crate::Queue;
use crate::in_flight::InFlight;
use crate::name::GROUP;
use crate::shared::Connection;

const PRUNE_INTERVAL: Duration = Duration::from_secs(600);
/// A consumer that is idle for this long is dead: a live one reads every few seconds.
const DEAD_AFTER: Duration = Duration::from_secs(3_600);
/// Entries released at a stop. The rest is redelivered after the visibility timeout.
const RELEASE_LIMIT: usize = 1_000;

/// Deletes idle consumers without pending entries. A script makes check and deletion atomic: deleting a consumer also
/// drops entries that it has just received.
const PRUNE: &str = r"
local deleted = 0
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local about = {}
  for i = 1, #consumer, 2 do about[consumer[i]] = consumer[i + 1] end
  if about.pending == 0 and about.idle > tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], about.name)
    deleted = deleted + 1
  end
end
return deleted";

/// The maintenance task of one consumer.
#[derive(Clone)]
pub(crate) struct Maintenance {
    pub(crate) queue: Queue,
    pub(crate) redis: Connection,
    pub(crate) consumer: String,
    pub(crate) in_flight: InFlight,
    pub(crate) visibility: Duration,
    pub(crate) renew_every: Duration,
}

impl Maintenance {
    /// Renews and prunes until aborted. Errors are logged at debug level only, because the fetcher reports an outage of
    /// Redis and the next tick tries again.
    pub(crate) async fn run(mut self) {
        let mut renewal = interval(self.renew_every);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pruning = interval(PRUNE_INTERVAL);
        pruning.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let result = tokio::select! {
                _ = renewal.tick() => self.renew().await,
                _ = pruning.tick() => self.prune(DEAD_AFTER).await,
            };
            if let Err(error) = result {
                debug!(queue = self.queue.name(), %error, "maintenance of the consumer group failed");
            }
        }
    }

    /// Resets the idle time of the entries in flight. After a pause this may take an entry back from a consumer that
    /// has reclaimed it. That is harmless: any consumer of the group can acknowledge it, and the claim of the row in
    /// Postgres decides which handler does the work.
    async fn renew(&mut self) -> RedisResult<()> {
        let ids = self.in_flight.ids();
        self.set_idle(Duration::ZERO, &ids).await
    }

    /// Deletes consumers that have been idle for `dead_after`.
    async fn prune(&mut self, dead_after: Duration) -> RedisResult<()> {
        let deleted: u64 = Script::new(PRUNE)
            .key(self.queue.stream())
            .arg(GROUP)
            .arg(dead_after.as_millis() as u64)
            .invoke_async(&mut self.redis)
            .await?;
        debug!(queue = self.queue.name(), deleted, "deleted dead consumers");
        Ok(())
    }

    /// Releases entries that this consumer received but never started: they are marked as idle for the visibility
    /// timeout, so that the next consumer reclaims them. Called when nothing is in flight any more.
    pub(crate) async fn release_unstarted(&mut self) -> RedisResult<()> {
        let pending: Vec<(String, String, u64, u64)> = redis::cmd("XPENDING")
            .arg(self.queue.stream())
            .arg(GROUP)
            .arg("-")
            .arg("+")
            .arg(RELEASE_LIMIT)
            .arg(&self.consumer)
            .query_async(&mut self.redis)
            .await?;
        let ids: Vec<String> = pending.into_iter().map(|(id, ..)| id).collect();
        self.set_idle(self.visibility, &ids).await
    }

    /// Claims entries for this consumer with the given idle time. `JUSTID`, so that it does not count as a delivery.
    async fn set_idle(&mut self, idle: Duration, ids: &[String]) -> RedisResult<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let _: Value = redis::cmd("XCLAIM")
            .arg(self.queue.stream())
            .arg(GROUP)
            .arg(&self.consumer)
            .arg(0)
            .arg(ids)
            .arg("IDLE")
            .arg(idle.as_millis() as u64)
            .arg("JUSTID")
            .query_async(&mut self.redis)
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use metrics::Gauge;
    use tokio::time::sleep;

    use super::*;
    use crate::connection::Redis;

    const QUEUE: Queue = Queue::new("kept");

    fn maintenance(redis: &Connection, consumer: &str) -> Maintenance {
        Maintenance {
            queue: QUEUE,
            redis: redis.clone(),
            consumer: consumer.to_owned(),
            in_flight: InFlight::new(Gauge::noop()),
            visibility: Duration::from_secs(3_600),
            renew_every: Duration::from_secs(3),
        }
    }

    /// Pushes one entry and reads it as `consumer`, which then never acknowledges it.
    async fn read_as(redis: &mut Connection, consumer: &str) -> RedisResult<()> {
        let stream = QUEUE.stream();
        let mut pipeline = redis::pipe();
        pipeline.xgroup_create_mkstream(&stream, GROUP, 0).xadd(&stream, "*", &[("id", "1")]);
        pipeline.cmd("XREADGROUP").arg("GROUP").arg(GROUP).arg(consumer).arg("STREAMS").arg(&stream).arg(">");
        pipeline.exec_async(redis).await
    }

    async fn idle_for(redis: &mut Connection, idle: Duration) -> RedisResult<usize> {
        let pending: Vec<Value> = redis::cmd("XPENDING")
            .arg(QUEUE.stream())
            .arg(GROUP)
            .arg("IDLE")
            .arg(idle.as_millis() as u64)
            .arg("-")
            .arg("+")
            .arg(10)
            .query_async(redis)
            .await?;
        Ok(pending.len())
    }

    #[tokio::test]
    async fn released_entries_can_be_reclaimed_at_once() -> Result<(), Box<dyn Error>> {
        let directory = testkit::TempDir::new()?;
        let server = testkit::Redis::start(directory.path(), testkit::redis::Options::default()).await?;
        let mut redis = Redis::new(&server.url())?.shared();
        read_as(&mut redis, "stopping").await?;
        let visibility = Duration::from_secs(3_600);
        assert_eq!(idle_for(&mut redis, visibility).await?, 0);
        maintenance(&redis, "another").release_unstarted().await?;
        assert_eq!(idle_for(&mut redis, visibility).await?, 0);
        maintenance(&redis, "stopping").release_unstarted().await?;
        assert_eq!(idle_for(&mut redis, visibility).await?, 1);
        Ok(())
    }

    #[tokio::test]
    async fn only_dead_consumers_without_entries_are_deleted() -> Result<(), Box<dyn Error>> {
        let directory = testkit::TempDir::new()?;
        let server = testkit::Redis::start(directory.path(), testkit::redis::Options::default()).await?;
        let mut redis = Redis::new(&server.url())?.shared();
        read_as(&mut redis, "holds an entry").await?;
        let _: u64 = redis::cmd("XGROUP")
            .arg(&["CREATECONSUMER", &QUEUE.stream(), GROUP, "holds nothing"])
            .query_async(&mut redis)
            .await?;
        sleep(Duration::from_millis(20)).await;
        let mut maintenance = maintenance(&redis, "living");
        maintenance.prune(Duration::from_secs(60)).await?;
        let consumers = |redis: Connection| async move {
            let mut redis = redis;
            let consumers: Vec<Value> =
                redis::cmd("XINFO").arg(&["CONSUMERS", &QUEUE.stream(), GROUP]).query_async(&mut redis).await?;
            RedisResult::Ok(consumers.len())
        };
        assert_eq!(consumers(redis.clone()).await?, 2);
        maintenance.prune(Duration::from_millis(1)).await?;
        assert_eq!(consumers(redis).await?, 1);
        Ok(())
    }
}
