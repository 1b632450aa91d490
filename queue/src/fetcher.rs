//! Reading: entries go to the worker one per free permit, and never one more, so that nothing waits inside a busy
//! process while another is idle.

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
use crate::{Queue, Timing, Wake};

/// Most entries the dead stream keeps, about.
const DEAD_MAX: usize = 10_000;
/// An entry handed out this often is counted and named in the log. It is handed out all the same: its row decides.
const STUBBORN: u64 = 5;

/// What `XREADGROUP` answers: nothing, or each stream with its entries.
type Read = Option<Vec<(String, Vec<Entry>)>>;
/// What `TIME` answers: seconds, and microseconds within the second.
type Time = (u64, u64);
/// What `XPENDING` answers for an entry: its id, who has it, for how many milliseconds, and how often it was handed
/// out.
type Pending = (String, String, u64, u64);

/// The reading side of one consumer.
pub(crate) struct Fetcher {
    pub(crate) queue: Queue,
    pub(crate) redis: Redis,
    /// This consumer's name.
    pub(crate) consumer: String,
    pub(crate) timing: Timing,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) in_flight: InFlight,
    pub(crate) meter: Meter,
    /// Has room for as many tasks as there are permits.
    pub(crate) tasks: mpsc::Sender<Task<Wake>>,
}

impl Fetcher {
    /// Reads until `stop`. Whatever goes wrong with Redis ends one connection, never this.
    pub(crate) async fn fetch(self, stop: CancellationToken) {
        let reading = async {
            let mut outage = Outage::new(self.queue);
            loop {
                let Err(error) = self.read_on_one_connection(&mut outage).await;
                self.meter.reconnects.increment(1);
                sleep(outage.failed(&error)).await;
            }
        };
        // A read that blocks cannot be cancelled, but its connection can be dropped. An answer already on its way is
        // given back later.
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
            let permit = self.free_permits().await;
            if reclaim_at <= Instant::now() {
                reclaim_at = Instant::now() + self.timing.block;
                let reclaimed = self.reclaim(&mut redis, permit.num_permits()).await?;
                if !reclaimed.is_empty() {
                    self.hand_over(&mut redis, reclaimed, permit).await?;
                    continue;
                }
            }
            let read = self.read(&mut redis, permit.num_permits()).await?;
            outage.over();
            self.hand_over(&mut redis, read, permit).await?;
        }
    }

    /// Begins at 0: after a FLUSHALL, what was pushed before the group came back is still read.
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

    /// Waits for a free permit, and takes all that are free.
    async fn free_permits(&self) -> OwnedSemaphorePermit {
        const OPEN: &str = "nobody closes the semaphore";
        let mut permit = Arc::clone(&self.permits).acquire_owned().await.expect(OPEN);
        // Nobody else acquires: what is available now can only become more.
        let more = self.permits.available_permits() as u32;
        permit.merge(Arc::clone(&self.permits).try_acquire_many_owned(more).expect(OPEN));
        permit
    }

    /// New entries: waits for the first up to `block`, and takes up to `count`.
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
            // Answered when the read has been: Redis' clock dates the entries, so Redis' clock says how long they
            // waited.
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

    /// Up to `count` entries whose holder has not renewed them within the visibility: it is dead, paused or cut off.
    ///
    /// `XPENDING` and `XCLAIM` rather than `XAUTOCLAIM`, which hides how often an entry was handed out and needs a
    /// cursor. Claiming checks the idle time again, so of two that look at once only one gets the entry.
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
            // Our own may be among them, when this process or Redis was paused; they are not handed out again.
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
        for (entry, _, _, deliveries) in idle.iter().filter(|(.., deliveries)| deliveries + 1 >= STUBBORN) {
            self.meter.stubborn.increment(1);
            warn!(queue = self.queue.name(), entry, deliveries, "an entry is handed out once more after many times");
        }
        Ok(claimed)
    }

    /// One permit goes with each entry. If this fails, the entries not handed over are nobody's, and are reclaimed
    /// after the visibility.
    async fn hand_over(
        &self,
        redis: &mut MultiplexedConnection,
        entries: Vec<Entry>,
        mut permits: OwnedSemaphorePermit,
    ) -> RedisResult<()> {
        for entry in entries {
            let Some(wake) = entry.wake() else {
                self.bury(redis, entry).await?;
                continue;
            };
            let permit = permits.split(1).expect("no more entries were asked for than there are permits");
            let mut data = Extensions::new();
            data.insert(self.in_flight.hold(entry.id, permit));
            // Refused only when the consumer is closing, which gives the entry back.
            let _ = self.tasks.try_send(TaskBuilder::new(wake).with_data(data).build());
        }
        Ok(())
    }

    /// Moves an entry nobody can read to the dead stream, where a person may look at it.
    async fn bury(&self, redis: &mut MultiplexedConnection, entry: Entry) -> RedisResult<()> {
        let stream = self.queue.stream();
        warn!(queue = self.queue.name(), entry = entry.id, "an entry cannot be read; moved to the dead stream");
        self.meter.dead.increment(1);
        redis::pipe()
            .atomic()
            .cmd("XADD")
            .arg(self.queue.dead_stream())
            .arg("MAXLEN")
            .arg("~")
            .arg(DEAD_MAX)
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

/// Says once that Redis is away and once that it is back, however many attempts lie between.
struct Outage {
    queue: Queue,
    failures: u32,
    backoff: Backoff,
}

impl Outage {
    const fn new(queue: Queue) -> Self {
        Self { queue, failures: 0, backoff: Backoff::new() }
    }

    /// Notes a failure; answers how long to wait.
    fn failed(&mut self, error: &RedisError) -> Duration {
        if self.failures == 0 {
            warn!(queue = self.queue.name(), %error, "reading from Redis failed; reconnecting until it works");
        }
        self.failures = self.failures.saturating_add(1);
        self.backoff.next()
    }

    fn over(&mut self) {
        if self.failures > 0 {
            info!(queue = self.queue.name(), attempts = self.failures, "reading from Redis again");
        }
        self.failures = 0;
        self.backoff.reset();
    }
}
