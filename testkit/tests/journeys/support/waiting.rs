//! Waiting for what must come, and doing many things at once.

use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep};

/// Longer than anything takes that is not broken: the promise after the last fault is a minute.
const PATIENCE: Duration = Duration::from_secs(75);

/// Looks until there is something to see. A look that fails is one that saw nothing yet: servers may be away.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        let seen = look().await;
        if let Ok(Some(seen)) = seen {
            return Ok(seen);
        }
        if Instant::now() >= until {
            bail!("waited in vain: {what}; the last look said {:?}", seen.err());
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Both at once. But two of the races are lost beforehand, so that both ends are seen on any machine.
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

/// Does `count` things at once.
pub(crate) async fn together<T, F>(count: usize, each: impl Fn(usize) -> F) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>>,
{
    try_join_all((0..count).map(each)).await
}
