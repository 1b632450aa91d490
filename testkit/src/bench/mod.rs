//! Benchmarks of the whole system: real processes, a Postgres that waits for its disk, and beside them a floor that the
//! same machine reaches in the same run. Figures are ratios first: a shared machine has no honest absolute ones.

mod floor;
pub mod hop;
mod load;
mod payments;
mod receiver;
mod scheduler;
mod usage;
mod webhooks;

use anyhow::{Result, bail};

use crate::Cluster;

/// Runs the benchmark that the command line names; `--json` prints one object last.
///
/// # Errors
/// When there is no such benchmark, or it fails.
pub async fn command(arguments: &[String]) -> Result<()> {
    let json = arguments.iter().any(|argument| argument == "--json");
    let report = match arguments.first().map(String::as_str) {
        Some("payments") => payments::run(seconds(arguments)?).await?,
        Some("webhooks") => webhooks::run(seconds(arguments)?).await?,
        Some("scheduler") => scheduler::run(seconds(arguments)?).await?,
        _ => bail!("bench payments|webhooks|scheduler [--seconds N] [--json]"),
    };
    if json {
        println!("{report}");
    }
    Ok(())
}

/// `ctl accounts create` for an account that no rate limit slows down.
const NO_LIMIT: [&str; 8] = ["--mode", "test", "--provider", "mock", "--rate-limit", "1000000", "--burst", "1000000"];

/// One process of each kind as they run in production, and a Postgres that waits for its disk.
async fn cluster() -> Result<Cluster> {
    let one_of_each = Cluster::builder().api(1).worker(1).scheduler(1);
    one_of_each.durable().env("RUST_LOG", "warn").env("KEY_CACHE_MS", "1000").start().await
}

/// How long each load lasts, from `--seconds N`.
fn seconds(arguments: &[String]) -> Result<u64> {
    match arguments.iter().position(|argument| argument == "--seconds").map(|at| arguments.get(at + 1)) {
        None => Ok(5),
        Some(Some(text)) => Ok(text.parse()?),
        Some(None) => bail!("--seconds wants a number"),
    }
}
