//! Keeping the group in order: holding on to what is in flight, giving back what was never begun, and forgetting dead
//! consumers.

use std::time::Duration;

use redis::{RedisResult, Script, Value};
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use crate::Queue;
use crate::in_flight::InFlight;
use crate::name::GROUP;
use crate::shared::Connection;

/// How often dead consumers are looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(600);
/// A consumer that has not spoken for this long is dead: a living one reads every few seconds.
const DEAD_AFTER: Duration = Duration::from_secs(3_600);
/// Most entries given back at a stop. The others come again when their visibility ends.
const GIVE_BACK: usize = 1_000;

/// Deletes consumers that are idle and hold nothing. In one script, since deleting a consumer also forgets what it was
/// given a moment ago.
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

/// One consumer's standing in its group.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) queue: Queue,
    pub(crate) redis: Connection,
    /// This consumer's name.
    pub(crate) consumer: String,
    pub(crate) in_flight: InFlight,
    pub(crate) visibility: Duration,
    pub(crate) renew_every: Duration,
}

impl Keeper {
    /// Renews and prunes for ever. Errors are only noted: the fetcher speaks up when Redis is away, and the next tick
    /// tries again.
    pub(crate) async fn keep(mut self) {
        let mut renewal = interval(self.renew_every);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pruning = interval(PRUNE_EVERY);
        pruning.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                _ = renewal.tick() => self.renew().await,
                _ = pruning.tick() => self.prune(DEAD_AFTER).await,
            };
            if let Err(error) = done {
                debug!(queue = self.queue.name(), %error, "keeping the group in order failed");
            }
        }
    }

    /// Tells Redis that what is in flight is still ours. After a pause this may take an entry back from a consumer that
    /// took it over; that one goes on too, acknowledgement is the group's, and the row in Postgres has decided between
    /// the two.
    async fn renew(&mut self) -> RedisResult<()> {
        let ids = self.in_flight.ids();
        self.claim_as_idle_for(Duration::ZERO, &ids).await
    }

    /// Deletes the consumers that have not spoken for `dead_after`.
    async fn prune(&mut self, dead_after: Duration) -> RedisResult<()> {
        let deleted: u64 = Script::new(PRUNE)
            .key(self.queue.stream())
            .arg(GROUP)
            .arg(dead_after.as_millis() as u64)
            .invoke_async(&mut self.redis)
            .await?;
        debug!(queue = self.queue.name(), deleted, "dead consumers deleted");
        Ok(())
    }

    /// Gives back what Redis handed to this consumer and no handler began: it is marked as idle for a whole visibility,
    /// so that the next consumer to look takes it. Called when nothing is in flight any more.
    pub(crate) async fn give_back(&mut self) -> RedisResult<()> {
        let pending: Vec<(String, String, u64, u64)> = redis::cmd("XPENDING")
            .arg(self.queue.stream())
            .arg(GROUP)
            .arg("-")
            .arg("+")
            .arg(GIVE_BACK)
            .arg(&self.consumer)
            .query_async(&mut self.redis)
            .await?;
        let ids: Vec<String> = pending.into_iter().map(|(id, ..)| id).collect();
        self.claim_as_idle_for(self.visibility, &ids).await
    }

    /// `JUSTID`, so that it does not count as a delivery.
    async fn claim_as_idle_for(&mut self, idle: Duration, ids: &[String]) -> RedisResult<()> {
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

    fn keeper(redis: &Connection, consumer: &str) -> Keeper {
        Keeper {
            queue: QUEUE,
            redis: redis.clone(),
            consumer: consumer.to_owned(),
            in_flight: InFlight::new(Gauge::noop()),
            visibility: Duration::from_secs(3_600),
            renew_every: Duration::from_secs(3),
        }
    }

    /// Reads the only entry as `consumer`, as if that one had died with it.
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
    async fn what_is_given_back_can_be_taken_at_once() -> Result<(), Box<dyn Error>> {
        let directory = testkit::TempDir::new()?;
        let server = testkit::Redis::start(directory.path(), testkit::redis::Options::default()).await?;
        let mut redis = Redis::new(&server.url())?.shared();
        read_as(&mut redis, "stopping").await?;
        let visibility = Duration::from_secs(3_600);
        assert_eq!(idle_for(&mut redis, visibility).await?, 0);
        keeper(&redis, "another").give_back().await?;
        assert_eq!(idle_for(&mut redis, visibility).await?, 0);
        keeper(&redis, "stopping").give_back().await?;
        assert_eq!(idle_for(&mut redis, visibility).await?, 1);
        Ok(())
    }

    #[tokio::test]
    async fn only_consumers_that_are_dead_and_hold_nothing_are_deleted() -> Result<(), Box<dyn Error>> {
        let directory = testkit::TempDir::new()?;
        let server = testkit::Redis::start(directory.path(), testkit::redis::Options::default()).await?;
        let mut redis = Redis::new(&server.url())?.shared();
        read_as(&mut redis, "holds an entry").await?;
        let _: u64 = redis::cmd("XGROUP")
            .arg(&["CREATECONSUMER", &QUEUE.stream(), GROUP, "holds nothing"])
            .query_async(&mut redis)
            .await?;
        sleep(Duration::from_millis(20)).await;
        let mut keeper = keeper(&redis, "living");
        keeper.prune(Duration::from_secs(60)).await?;
        let consumers = |redis: Connection| async move {
            let mut redis = redis;
            let consumers: Vec<Value> =
                redis::cmd("XINFO").arg(&["CONSUMERS", &QUEUE.stream(), GROUP]).query_async(&mut redis).await?;
            RedisResult::Ok(consumers.len())
        };
        assert_eq!(consumers(redis.clone()).await?, 2);
        keeper.prune(Duration::from_millis(1)).await?;
        assert_eq!(consumers(redis).await?, 1);
        Ok(())
    }
}
