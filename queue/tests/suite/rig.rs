//! A private Redis, its consumers, and a tally of what they handled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use queue::{Pool, Publisher, Queue, Stopped, Timing, Wake, run};
use testkit::{Redis, TempDir};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// Long enough for a busy machine, short enough to fail a stuck test.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Short timings for tests.
pub(crate) const FAST: Timing = Timing {
    visibility: Duration::from_secs(2),
    renew_every: Duration::from_millis(300),
    block: Duration::from_millis(500),
};

pub(crate) struct Rig {
    pub(crate) redis: Redis,
    pub(crate) publisher: Publisher,
    _directory: TempDir,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let redis = Redis::start(directory.path(), testkit::redis::Options::default()).await.unwrap();
        let publisher = Publisher::connect(&queue::Redis::new(&redis.url()).unwrap());
        Self { redis, publisher, _directory: directory }
    }

    pub(crate) fn consume(&self, pool: Pool) -> Consumer {
        Consumer::start(self.redis.url(), pool)
    }

    /// A connection for commands that only an operator or a fault would send.
    pub(crate) async fn raw(&self) -> redis::aio::MultiplexedConnection {
        redis::Client::open(self.redis.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
    }

    pub(crate) async fn flush(&self) {
        redis::cmd("FLUSHALL").exec_async(&mut self.raw().await).await.unwrap();
    }

    /// Pushes as the sweep does: repeats every half second until all ids are handled.
    pub(crate) async fn push_until_handled(&self, queue: Queue, ids: &[Uuid], tally: &Tally) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let missing: Vec<Wake> = ids.iter().filter(|id| tally.count(**id) == 0).map(|id| wake(*id)).collect();
            if missing.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "{} of {} were not handled", missing.len(), ids.len());
            for batch in missing.chunks(500) {
                // Redis may be unavailable; the next round retries.
                let _ = self.publisher.push(queue, batch).await;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
}

/// A consumer as a worker process runs it.
pub(crate) struct Consumer {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Stopped>,
}

impl Consumer {
    pub(crate) fn start(url: String, pool: Pool) -> Self {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let redis = queue::Redis::new(&url).unwrap();
        let running = tokio::spawn(async move { run(&redis, vec![pool], shutdown, Duration::from_secs(20)).await });
        Self { stop, running }
    }

    pub(crate) async fn stop(self) -> Stopped {
        let _ = self.stop.send(());
        self.running.await.unwrap()
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.running.is_finished()
    }
}

/// How often each id was handled.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    counts: Arc<Mutex<HashMap<Uuid, usize>>>,
    started: Arc<AtomicUsize>,
}

impl Tally {
    pub(crate) fn record(&self, id: Uuid) {
        *self.counts.lock().unwrap().entry(id).or_default() += 1;
    }

    pub(crate) fn count(&self, id: Uuid) -> usize {
        self.counts.lock().unwrap().get(&id).copied().unwrap_or_default()
    }

    pub(crate) fn distinct(&self) -> usize {
        self.counts.lock().unwrap().len()
    }

    /// The number of handlers that have started. Entries that were only read are released at a stop.
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    /// The highest count of any id.
    pub(crate) fn max(&self) -> usize {
        self.counts.lock().unwrap().values().copied().max().unwrap_or_default()
    }
}

/// A pool with [`FAST`] timings whose handler takes `duration` and then records the wake-up.
pub(crate) fn recording_pool(queue: Queue, concurrency: usize, duration: Duration, tally: &Tally) -> Pool {
    let tally = tally.clone();
    let handler = move |wake: Wake| {
        let tally = tally.clone();
        async move {
            tally.started.fetch_add(1, Ordering::Relaxed);
            if !duration.is_zero() {
                sleep(duration).await;
            }
            tally.record(wake.id);
        }
    };
    Pool { timing: FAST, ..Pool::new(queue, concurrency, handler) }
}

/// Counts from the first call on, over all tests of the process; use a queue of your own.
pub(crate) fn metrics() -> &'static PrometheusHandle {
    static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();
    METRICS.get_or_init(|| PrometheusBuilder::new().install_recorder().unwrap())
}

pub(crate) fn wake(id: Uuid) -> Wake {
    id.into()
}

pub(crate) fn wakes(ids: &[Uuid]) -> Vec<Wake> {
    ids.iter().copied().map(wake).collect()
}

pub(crate) fn ids(count: u128) -> Vec<Uuid> {
    (1..=count).map(Uuid::from_u128).collect()
}

/// Waits until `condition` holds; panics after [`TIMEOUT`].
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < until, "timed out waiting until {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Random numbers from a seed that is printed, so that a failure can be reproduced.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| getrandom::u64().unwrap());
        println!("SEED={seed}");
        // The generator stays at zero once it is zero.
        Self(seed | 1)
    }

    pub(crate) fn millis(&mut self, below: u64) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(self.0 % below)
    }
}
