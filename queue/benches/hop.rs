//! Benchmarks of the queue: latency of one hop and of a round trip, and throughput of no-op jobs.
//!
//! `cargo bench -p queue --bench hop -- [--json]` starts a Redis of its own. With `--json` the last line is a JSON
//! object with milliseconds and jobs per second. The results are meaningful only on an idle machine.

#![expect(clippy::disallowed_methods, reason = "a benchmark may lose what it spawns")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use queue::{Pool, Publisher, Queue, Redis, Replies, Wake, run};
use testkit::TempDir;
use testkit::bench::hop;
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

const SAMPLES: usize = 3_000;
/// Discarded samples, while connections are established and caches filled.
const WARM_UP: usize = 200;
const JOBS: usize = 200_000;
const CONCURRENCY: usize = 64;
/// Pause between samples, so that each wakes idle processes, as under low load.
const PAUSE: Duration = Duration::from_millis(3);
const CHANNEL: &str = "bench";

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let directory = TempDir::new()?;
    let redis = testkit::Redis::start(directory.path(), testkit::redis::Options::default()).await?;
    let url = redis.url();

    let hops = hop::milliseconds(&url).await?;
    let (p50, p99) = (hop::percentile(&hops, 50), hop::percentile(&hops, 99));
    println!("enqueue -> handler starts, one at a time: p50 {p50:.3} ms, p99 {p99:.3} ms");

    let mut trip = round_trip(&url).await?;
    let (trip_p50, trip_p99) = (percentile(&mut trip, 50), percentile(&mut trip, 99));
    println!("push -> handler -> reply -> waiter, one at a time: p50 {trip_p50:.3} ms, p99 {trip_p99:.3} ms");

    let rate = throughput(&url).await?;
    println!("no-op jobs, {CONCURRENCY} at a time: {rate:.0} per second");

    if std::env::args().any(|argument| argument == "--json") {
        let report = serde_json::json!({
            "hop_p50_ms": p50,
            "hop_p99_ms": p99,
            "round_trip_p50_ms": trip_p50,
            "round_trip_p99_ms": trip_p99,
            "noop_jobs_per_second": rate.round(),
        });
        println!("{report}");
    }
    Ok(())
}

/// Milliseconds from the push until the waiter is notified: the latency that the queue adds to a request.
async fn round_trip(url: &str) -> Outcome<Vec<f64>> {
    const QUEUE: Queue = Queue::new("bench_trip");
    let publisher = Publisher::connect(&Redis::new(url)?);
    let replies = Replies::start(&Redis::new(url)?, CHANNEL);
    let replier = publisher.clone();
    let pool = Pool::new(QUEUE, CONCURRENCY, move |wake: Wake| {
        let replier = replier.clone();
        async move {
            let _ = replier.reply(CHANNEL, wake.id).await;
        }
    });
    consuming(url, pool, async {
        let mut samples = Vec::new();
        for number in 0..(WARM_UP + SAMPLES) as u128 {
            let mut waiter = replies.register(Uuid::from_u128(number));
            let pushed = Instant::now();
            publisher.push(QUEUE, &[wake(number)]).await?;
            // The first replies may be sent before the subscription exists.
            let notified = timeout(Duration::from_secs(1), waiter.notified()).await;
            if number >= WARM_UP as u128 {
                notified?;
            }
            samples.push(millis(pushed.elapsed()));
            sleep(PAUSE).await;
        }
        Ok(samples.split_off(WARM_UP))
    })
    .await
}

/// Jobs per second, from a queue that is full before the consumer starts.
async fn throughput(url: &str) -> Outcome<f64> {
    const QUEUE: Queue = Queue::new("bench_rate");
    let publisher = Publisher::connect(&Redis::new(url)?);
    let wakes: Vec<Wake> = (0..1_000).map(wake).collect();
    let mut rates = Vec::new();
    // A stream keeps about 100,000 entries, so the jobs come in rounds.
    for _ in 0..JOBS / 50_000 {
        for _ in 0..50 {
            publisher.push(QUEUE, &wakes).await?;
        }
        let (done, all_done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let finished = Arc::clone(&all_done);
        let pool = Pool::new(QUEUE, CONCURRENCY, move |_| {
            if done.fetch_add(1, Ordering::Relaxed) + 1 == 50_000 {
                finished.notify_one();
            }
            async {}
        });
        let started = Instant::now();
        let seconds = consuming(url, pool, async {
            all_done.notified().await;
            Ok(started.elapsed().as_secs_f64())
        })
        .await?;
        rates.push(50_000.0 / seconds);
    }
    Ok(percentile(&mut rates, 50))
}

/// Runs `work` while `pool` is consumed.
async fn consuming<T>(url: &str, pool: Pool, work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let (stop, stopped) = oneshot::channel::<()>();
    let redis = Redis::new(url)?;
    let shutdown = async {
        let _ = stopped.await;
    };
    let consumer = tokio::spawn(async move { run(&redis, vec![pool], shutdown, Duration::from_secs(5)).await });
    let result = work.await;
    drop(stop);
    consumer.await?;
    result
}

fn wake(number: u128) -> Wake {
    Wake { id: Uuid::from_u128(number), request_id: Some("req_01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned()) }
}

/// To the microsecond.
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

fn percentile(samples: &mut [f64], percent: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() - 1) * percent / 100]
}
