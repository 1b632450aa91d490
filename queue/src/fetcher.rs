//! Reads entries from the stream: one per free permit and never more, so that no entry waits in a busy process while
//! another is idle.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use apalis_core::task::Task;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::task::extensions::Extensions;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::connection::Redis;
use crate::entry::Entry;
use crate::in_flight::InFlight;
use crate::meter::Meter;
use crate::name::GROUP;
use crate::slots::acquire_free;
use crate::{Queue, Timing, Wake};

/// Approximate limit of the dead stream.
const DEAD_STREAM_MAX: usize = 10_000;
/// Entries delivered this often are counted and logged. They are still processed: their rows decide.
const REDELIVERY_LIMIT: u64 = 5;

/// Response of `XREADGROUP`: nothing, or each stream with its entries.
type Read = Option<Vec<(String, Vec<Entry>)>>;
/// Response of `TIME`: seconds, and microseconds within the second.
type Time = (u64, u64);
/// An entry in the response of `XPENDING`: its id, its consumer, its idle time in milliseconds, and its number of
/// deliveries.
type Pending = (String, String, u64, u64);

/// The reading side of a consumer.
pub(crate) struct Fetcher {
    pub(crate) queue: Queue,
    pub(crate) redis: Redis,
    pub(crate) consumer: String,
    pub(crate) timing: Timing,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) in_flight: InFlight,
    pub(crate) meter: Meter,
    /// Its capacity is the number of permits.
    pub(crate) tasks: mpsc::Sender<Task<Wake>>,
}

impl Fetcher {
    /// Reads until `stop`. A failure of Redis ends only one connection.
    pub(crate) async fn fetch(self, stop: CancellationToken) {
        let reading = async {
            let mut outage = Outage::new(self.queue);
            loop {
                let Err(error) = self.read_on_one_connection(&mut outage).await;
                self.meter.reconnects.increment(1);
                sleep(outage.failed(&error)).await;
            }
        };
        // A blocking read cannot be cancelled, but its connection can be dropped. Entries of a response already sent
        // are released later.
        tokio::select! {
            () = reading => {}
            () = stop.cancelled() => {}
        }
    }

    async fn read_on_one_connection(&self, outage: &mut Outage) -> RedisResult<Infallible> {
        let mut redis = self.redis.blocking(self.timing.block).await?;
        self.create_group(&mut redis).await?;
        let mut reclaim_at = Instant::now();
        loop {
            let permit = acquire_free(&self.permits).await;
            if reclaim_at <= Instant::now() {
                reclaim_at = Instant::now() + self.timing.block;
                let reclaimed = self.reclaim(&mut redis, permit.num_permits()).await?;
                if !reclaimed.is_empty() {
                    self.dispatch(&mut redis, reclaimed, permit).await?;
                    continue;
                }
            }
            let read = self.read(&mut redis, permit.num_permits()).await?;
            outage.recovered();
            self.dispatch(&mut redis, read, permit).await?;
        }
    }

    /// Starts at 0, so that entries pushed between a FLUSHALL and the creation of the group are read.
    async fn create_group(&self, redis: &mut MultiplexedConnection) -> RedisResult<()> {
        let created = redis::cmd("XGROUP")
            .arg("CREATE")
            .arg(self.queue.stream())
            .arg(GROUP)
            .arg("0")
            .arg("MKSTREAM")
            .exec_async(redis)
            .await;
        match created {
            Err(error) if error.code() == Some("BUSYGROUP") => Ok(()),
            created => created,
        }
    }

    /// Reads up to `count` new entries; waits up to `block` for the first.
    async fn read(&self, redis: &mut MultiplexedConnection, count: usize) -> RedisResult<Vec<Entry>> {
        let (read, (seconds, micros)): (Read, Time) = redis::pipe()
            .cmd("XREADGROUP")
            .arg("GROUP")
            .arg(GROUP)
            .arg(&self.consumer)
            .arg("COUNT")
            .arg(count)
            .arg("BLOCK")
            .arg(self.timing.block.as_millis() as u64)
            .arg("STREAMS")
            .arg(self.queue.stream())
            .arg(">")
            // Executed after the read. Entry ids contain Redis' time, so the waiting time must use the same clock.
            .cmd("TIME")
            .query_async(redis)
            .await?;
        let entries: Vec<Entry> = read.into_iter().flatten().flat_map(|(_, entries)| entries).collect();
        let now_ms = seconds * 1_000 + micros / 1_000;
        for entry in &entries {
            self.meter.wait_seconds.record(entry.waited_seconds(now_ms));
        }
        self.meter.fetched.increment(entries.len() as u64);
        Ok(entries)
    }

    /// Claims up to `count` entries whose consumer has not renewed them within the visibility timeout: it is dead,
    /// paused or disconnected.
    ///
    /// `XPENDING` and `XCLAIM` instead of `XAUTOCLAIM`, which hides the number of deliveries and needs a cursor.
    /// `XCLAIM` checks the idle time again, so only one of several concurrent consumers gets the entry.
    async fn reclaim(&self, redis: &mut MultiplexedConnection, count: usize) -> RedisResult<Vec<Entry>> {
        let stream = self.queue.stream();
        let visibility_ms = self.timing.visibility.as_millis() as u64;
        let idle: Vec<Pending> = redis::cmd("XPENDING")
            .arg(&stream)
            .arg(GROUP)
            .arg("IDLE")
            .arg(visibility_ms)
            .arg("-")
            .arg("+")
            // After a pause of this process or of Redis, this consumer's own entries may be among them; they are
            // skipped.
            .arg(count + self.in_flight.len())
            .query_async(redis)
            .await?;
        let idle: Vec<Pending> = idle.into_iter().filter(|(id, ..)| !self.in_flight.contains(id)).take(count).collect();
        if idle.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<&str> = idle.iter().map(|(id, ..)| id.as_str()).collect();
        let claimed: Vec<Entry> = redis::cmd("XCLAIM")
            .arg(&stream)
            .arg(GROUP)
            .arg(&self.consumer)
            .arg(visibility_ms)
            .arg(ids)
            .query_async(redis)
            .await?;
        self.meter.reclaimed.increment(claimed.len() as u64);
        for (entry, _, _, deliveries) in idle.iter().filter(|(.., deliveries)| deliveries + 1 >= REDELIVERY_LIMIT) {
            self.meter.redelivery_limit_exceeded.increment(1);
            warn!(
                queue = self.queue.name(),
                entry, deliveries, "an entry was delivered many times and is delivered again"
            );
        }
        Ok(claimed)
    }

    /// Passes each entry to the worker with one permit. If this fails, the remaining entries are reclaimed after the
    /// visibility timeout.
    async fn dispatch(
        &self,
        redis: &mut MultiplexedConnection,
        entries: Vec<Entry>,
        mut permits: OwnedSemaphorePermit,
    ) -> RedisResult<()> {
        for entry in entries {
            let Some(wake) = entry.wake() else {
                self.move_to_dead_stream(redis, entry).await?;
                continue;
            };
            let permit = permits.split(1).expect("no more entries than permits were requested");
            let mut data = Extensions::new();
            data.insert(self.in_flight.insert(entry.id, permit));
            // Fails only while the consumer closes, which releases the entry.
            let _ = self.tasks.try_send(TaskBuilder::new(wake).with_data(data).build());
        }
        Ok(())
    }

    /// Moves an invalid entry to the dead stream for operators to inspect.
    async fn move_to_dead_stream(&self, redis: &mut MultiplexedConnection, entry: Entry) -> RedisResult<()> {
        let stream = self.queue.stream();
        warn!(queue = self.queue.name(), entry = entry.id, "an entry is invalid; moving it to the dead stream");
        self.meter.dead.increment(1);
        redis::pipe()
            .atomic()
            .cmd("XADD")
            .arg(self.queue.dead_stream())
            .arg("MAXLEN")
            .arg("~")
            .arg(DEAD_STREAM_MAX)
            .arg("*")
            .arg("entry")
            .arg(&entry.id)
            .arg(&entry.fields)
            .xack(&stream, GROUP, &[&entry.id])
            .xdel(&stream, &[&entry.id])
            .exec_async(redis)
            .await
    }
}

/// Logs the start and the end of an outage of Redis once each, not every attempt.
struct Outage {
    queue: Queue,
    failures: u32,
    backoff: Backoff,
}

impl Outage {
    const fn new(queue: Queue) -> Self {
        Self { queue, failures: 0, backoff: Backoff::new() }
    }

    /// Records a failure and returns the delay before the next attempt.
    fn failed(&mut self, error: &RedisError) -> Duration {
        if self.failures == 0 {
            warn!(queue = self.queue.name(), %error, "reading from Redis failed; reconnecting until it works");
        }
        self.failures = self.failures.saturating_add(1);
        self.backoff.next()
    }

    fn recovered(&mut self) {
        if self.failures > 0 {
            info!(queue = self.queue.name(), attempts = self.failures, "reading from Redis again");
        }
        self.failures = 0;
        self.backoff.reset();
    }
}
