//! When and how often work is looked for.

use std::time::Duration;

use foundation::error::Result;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Repeats `batch` while it is full, at most `max_batches` times; the next tick continues.
pub(crate) async fn batches(max_batches: usize, rows: i64, batch: impl AsyncFn() -> Result<u64>) -> Result<()> {
    for _ in 0..max_batches {
        if batch().await? < rows.unsigned_abs() {
            break;
        }
    }
    Ok(())
}

/// Timers that delay missed ticks instead of bursting.
pub(crate) fn every<const N: usize>(seconds: [u64; N]) -> [Interval; N] {
    seconds.map(|seconds| {
        let mut ticks = interval(Duration::from_secs(seconds));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    })
}
