//! A closed loop of clients: each sends its next request when it has the answer to the last.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::task::JoinSet;

/// What a load measured.
pub(super) struct Measured {
    /// Answers per second.
    pub(super) per_second: f64,
    /// Answers in all.
    pub(super) count: usize,
    sorted_ms: Vec<f64>,
}

impl Measured {
    /// The latency that so many percent of the answers did not exceed, in milliseconds.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let last = self.sorted_ms.len().saturating_sub(1);
        self.sorted_ms.get(last * percent / 100).copied().unwrap_or(f64::NAN)
    }
}

/// Lets `clients` work for `duration`.
pub(super) async fn closed_loop<F, Fut>(clients: usize, duration: Duration, request: F) -> Result<Measured>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<()>> + Send,
{
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let request = request.clone();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while began.elapsed() < duration {
                let sent = Instant::now();
                request().await?;
                latencies.push(sent.elapsed().as_secs_f64() * 1000.0);
            }
            anyhow::Ok(latencies)
        });
    }
    let mut sorted_ms = Vec::new();
    while let Some(latencies) = tasks.join_next().await {
        sorted_ms.extend(latencies??);
    }
    let elapsed = began.elapsed().as_secs_f64();
    sorted_ms.sort_by(f64::total_cmp);
    Ok(Measured { per_second: sorted_ms.len() as f64 / elapsed, count: sorted_ms.len(), sorted_ms })
}
