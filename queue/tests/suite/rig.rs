//! A private Redis, its consumers, and a tally of what they handled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use queue::{Depth, Pool, Publisher, Queue, Stopped, Timing, Wake, run};
use redis::AsyncConnectionConfig;
use testkit::{Redis, TempDir};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// Long enough for a busy machine, short enough to fail a stuck test.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The shortest timings with which a slow machine still renews its entries in time.
pub(crate) const FAST: Timing = Timing {
    visibility: Duration::from_secs(5),
    renew_every: Duration::from_millis(300),
    block: Duration::from_millis(500),
};
/// For tests in which no entry of a living consumer goes to another, however slow the machine is.
pub(crate) const STEADY: Timing = Timing { visibility: Duration::from_secs(3_600), ..FAST };

pub(crate) struct Rig {
    pub(crate) redis: Redis,
    pub(crate) publisher: Publisher,
    _directory: TempDir,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let directory = TempDir::in_memory().unwrap();
        let redis = Redis::start(directory.path(), testkit::redis::Options::default()).await.unwrap();
        let publisher = Publisher::connect(&queue::Redis::new(&redis.url()).unwrap());
        Self { redis, publisher, _directory: directory }
    }

    pub(crate) fn consume(&self, pool: Pool) -> Consumer {
        Consumer::start(self.redis.url(), pool)
    }

    /// A connection for commands that only an operator or a fault would send.
    pub(crate) async fn raw(&self) -> redis::aio::MultiplexedConnection {
        raw(&self.redis.url()).await
    }

    /// Pushes each id once, without the publisher's limit of a second, after which a push may or may not have arrived.
    pub(crate) async fn push(&self, queue: Queue, ids: &[Uuid]) {
        let mut pipeline = redis::pipe();
        for id in ids {
            pipeline.cmd("XADD").arg(queue.stream()).arg("*").arg("id").arg(id.to_string()).ignore();
        }
        pipeline.exec_async(&mut self.raw().await).await.unwrap();
    }

    /// The depth, read again if Redis does not respond within the publisher's second.
    pub(crate) async fn depth(&self, queue: Queue) -> Depth {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.publisher.depth(queue).await {
                Ok(depth) => return depth,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
        }
    }

    /// How often Redis has executed this command.
    pub(crate) async fn calls(&self, command: &str) -> usize {
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut self.raw().await).await.unwrap();
        let mut calls = stats.lines().filter_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        calls.next().map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    }

    /// The number of connections whose last command was this one.
    pub(crate) async fn clients(&self, command: &str) -> usize {
        let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut self.raw().await).await.unwrap();
        let last = format!(" cmd={command} ");
        list.lines().filter(|line| line.contains(&last)).count()
    }

    pub(crate) async fn flush(&self) {
        redis::cmd("FLUSHALL").exec_async(&mut self.raw().await).await.unwrap();
    }

    /// Pushes as the sweep does: repeats every half second until all ids are handled. Panics if none is handled for
    /// [`TIMEOUT`].
    pub(crate) async fn push_until_handled(&self, queue: Queue, ids: &[Uuid], tally: &Tally) {
        let mut progress = Progress::new();
        loop {
            let missing: Vec<Wake> = ids.iter().filter(|id| tally.count(**id) == 0).map(|id| wake(*id)).collect();
            if missing.is_empty() {
                return;
            }
            progress.check(ids.len() - missing.len(), ids.len());
            for batch in missing.chunks(500) {
                // Redis may be unavailable; the next round retries.
                let _ = self.publisher.push(queue, batch).await;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
}

/// A connection that waits as long as a slow machine needs.
pub(crate) async fn raw(url: &str) -> redis::aio::MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(TIMEOUT)).set_response_timeout(Some(TIMEOUT));
    redis::Client::open(url).unwrap().get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// A consumer as a worker process runs it. It waits for its handlers at a stop.
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
        let running = tokio::spawn(async move { run(&redis, vec![pool], shutdown, 2 * TIMEOUT).await });
        Self { stop, running }
    }

    pub(crate) async fn stop(self) -> Stopped {
        let _ = self.stop.send(());
        timeout(TIMEOUT, self.running).await.expect("the consumer stops").unwrap()
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

/// A pool with [`STEADY`] timings whose handler takes `duration` and then records the wake-up.
pub(crate) fn recording_pool(queue: Queue, concurrency: usize, duration: Duration, tally: &Tally) -> Pool {
    waiting_pool(queue, concurrency, tally, move || async move {
        if !duration.is_zero() {
            sleep(duration).await;
        }
    })
}

/// A pool with [`STEADY`] timings whose handler waits until `gate` has permits, and then records the wake-up.
pub(crate) fn gated_pool(queue: Queue, concurrency: usize, gate: &Arc<Semaphore>, tally: &Tally) -> Pool {
    let gate = Arc::clone(gate);
    waiting_pool(queue, concurrency, tally, move || {
        let gate = Arc::clone(&gate);
        async move { drop(gate.acquire().await.unwrap()) }
    })
}

fn waiting_pool<F: Future<Output = ()> + Send>(
    queue: Queue,
    concurrency: usize,
    tally: &Tally,
    wait: impl Fn() -> F + Send + Sync + 'static,
) -> Pool {
    let (tally, wait) = (tally.clone(), Arc::new(wait));
    let handler = move |wake: Wake| {
        let (tally, wait) = (tally.clone(), Arc::clone(&wait));
        async move {
            tally.started.fetch_add(1, Ordering::Relaxed);
            wait().await;
            tally.record(wake.id);
        }
    };
    Pool { timing: STEADY, ..Pool::new(queue, concurrency, handler) }
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

/// Fails a test in which nothing more happens, and not one that is slow.
struct Progress {
    done: usize,
    until: Instant,
}

impl Progress {
    fn new() -> Self {
        Self { done: 0, until: Instant::now() + TIMEOUT }
    }

    fn check(&mut self, done: usize, all: usize) {
        if done > self.done {
            *self = Self { done, ..Self::new() };
        }
        assert!(Instant::now() < self.until, "{done} of {all} were handled, and no other for {TIMEOUT:?}");
    }
}

/// Waits until this many ids are handled; panics if none is handled for [`TIMEOUT`].
pub(crate) async fn until_handled(tally: &Tally, count: usize) {
    let mut progress = Progress::new();
    while tally.distinct() < count {
        progress.check(tally.distinct(), count);
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until `condition` holds; panics after [`TIMEOUT`].
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < until, "timed out waiting until {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
