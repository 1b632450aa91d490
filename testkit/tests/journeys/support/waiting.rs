//! Waiting for failpoints and running requests concurrently.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use testkit::eventually;

/// Waits until the log shows that a process has hit this failpoint `times` times.
pub(crate) async fn failpoint_hits(log: &Path, point: &str, times: usize) -> Result<()> {
    let line = format!("failpoint point=\"{point}\"");
    eventually("a failpoint", async || {
        let hits = fs::read_to_string(log)?.matches(&line).count();
        ensure!(hits >= times, "{point} was hit {hits} of {times} times; see {}", log.display());
        Ok(Some(()))
    })
    .await
}

/// A pseudo-random delay, the same in each run.
pub(crate) fn jitter(round: usize, salt: usize, below_ms: usize) -> Duration {
    let mixed = (round * 7919 + salt * 104_729).wrapping_mul(2_654_435_761) >> 7;
    Duration::from_millis((mixed % below_ms) as u64)
}

/// Runs both concurrently. Rounds 0 and 1 run them in sequence, so that both results of the race occur on any machine.
pub(crate) async fn race<A, B>(
    round: usize,
    one: impl Future<Output = Result<A>>,
    other: impl Future<Output = Result<B>>,
) -> Result<(A, B)> {
    match round {
        0 => {
            let first = one.await?;
            Ok((first, other.await?))
        }
        1 => {
            let first = other.await?;
            Ok((one.await?, first))
        }
        _ => tokio::try_join!(one, other),
    }
}

/// Runs `each` `count` times concurrently.
pub(crate) async fn concurrently<T, F>(count: usize, each: impl Fn(usize) -> F) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>>,
{
    try_join_all((0..count).map(each)).await
}
