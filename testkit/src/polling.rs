//! Waiting for what happens in other processes.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// Only broken code takes longer: the system promises to recover within a minute of the last fault.
const TIMEOUT: Duration = Duration::from_secs(75);

/// Polls until `poll` returns a value. Errors count as not yet: servers may be down, and pages come and go.
///
/// # Errors
/// When it returns none in time; `what` names it.
pub async fn eventually<T>(what: &str, mut poll: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        let result = poll().await;
        if let Ok(Some(value)) = result {
            return Ok(value);
        }
        if began.elapsed() >= TIMEOUT {
            bail!("timed out waiting for {what}; the last poll returned {:?}", result.err());
        }
        pause(began).await;
    }
}

/// The pause before the next poll of something for which the caller waits since `began`: what happens soon is noticed
/// soon, and a long wait takes less from the processors on which it waits for others.
pub(crate) async fn pause(began: Instant) {
    sleep((began.elapsed() / 4).clamp(Duration::from_millis(20), Duration::from_millis(250))).await;
}
