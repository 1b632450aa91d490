//! Waiting for a condition, since everything in a browser takes time.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

use crate::pause_after;

/// Longer than any working operation takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Polls until the closure returns a value.
///
/// # Errors
/// When it returns none in time.
pub async fn eventually<T>(poll: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    wait_until("the condition of the test", poll).await
}

/// Polls until the closure returns a value. Errors count as not yet: pages come and go.
pub(super) async fn wait_until<T>(what: &str, mut poll: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        let result = poll().await;
        if let Ok(Some(value)) = result {
            return Ok(value);
        }
        if began.elapsed() >= TIMEOUT {
            bail!("timed out waiting for {what}; the last poll returned {:?}", result.err());
        }
        sleep(pause_after(began.elapsed())).await;
    }
}
