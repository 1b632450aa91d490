//! The latency of the queue alone: from before the push to the first line of the handler, through a real Redis.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use queue::{Pool, Publisher, Queue, Redis, Wake, run};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

const QUEUE: Queue = Queue::new("bench_hop");
const SAMPLES: usize = 1_000;
/// Discarded first samples, which establish connections and fill caches.
const WARM_UP: usize = 200;
/// Between samples, so that each finds the processes idle, as on a lightly loaded machine.
const PAUSE: Duration = Duration::from_millis(3);

/// The latencies of single hops in milliseconds, in ascending order.
///
/// # Errors
/// When Redis fails.
pub async fn milliseconds(redis_url: &str) -> Result<Vec<f64>> {
    let redis = Redis::new(redis_url)?;
    let publisher = Publisher::connect(&redis);
    let (notify, mut received) = mpsc::unbounded_channel();
    let pool = Pool::new(QUEUE, 64, move |_| {
        let _ = notify.send(Instant::now());
        async {}
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    let consumer = run(&redis, vec![pool], shutdown, Duration::from_secs(5));
    let measurement = async {
        let mut samples = Vec::new();
        for number in 0..(WARM_UP + SAMPLES) as u128 {
            let pushed = Instant::now();
            let wake =
                Wake { id: uuid::Uuid::from_u128(number), request_id: Some("req_01ARZ3NDEKTSV4RRFFQ69G5FAV".into()) };
            publisher.push(QUEUE, &[wake]).await?;
            let received = received.recv().await.context("the consumer ended")?;
            samples.push(received.duration_since(pushed).as_secs_f64() * 1000.0);
            sleep(PAUSE).await;
        }
        drop(stop);
        anyhow::Ok(samples.split_off(WARM_UP))
    };
    let (_, measurement) = tokio::join!(consumer, measurement);
    let mut samples = measurement?;
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}

/// The value that `percent` percent of the sorted samples do not exceed.
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or(f64::NAN)
}
