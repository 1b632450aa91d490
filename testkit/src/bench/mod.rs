//! Benchmarks of the whole system: real processes, a Postgres with `fsync` on, and a baseline measured on the same
//! machine in the same run. The main figures are ratios: absolute figures of a shared machine mean little.

mod baseline;
mod batches;
pub mod hop;
mod load;
mod payments;
mod reads;
mod report;
mod scheduler;
mod size;
mod usage;
mod webhooks;
mod workers;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::Cluster;

/// The benchmarks in the order in which `all` runs them.
const ALL: [&str; 5] = ["payments", "webhooks", "workers", "reads", "scheduler"];

/// Runs the named benchmark, or all of them, and prints the results as one table; `--json` also prints one JSON object
/// last.
///
/// # Errors
/// When the benchmark is unknown or fails.
pub async fn command(arguments: &[String]) -> Result<()> {
    let json = arguments.iter().any(|argument| argument == "--json");
    let seconds = seconds(arguments)?;
    let names = match arguments.first().map(String::as_str) {
        Some("all") => &ALL[..],
        Some(name) => match ALL.iter().position(|other| *other == name) {
            Some(at) => &ALL[at..=at],
            None => bail!("usage: bench all|payments|webhooks|workers|reads|scheduler [--seconds N] [--json]"),
        },
        None => bail!("usage: bench all|payments|webhooks|workers|reads|scheduler [--seconds N] [--json]"),
    };
    println!("{}", machine());
    let mut reports = Vec::new();
    for name in names {
        println!("--- {name}");
        reports.push(run(name, seconds).await?);
    }
    let results: Vec<Value> = reports.iter().map(report::Report::json).collect();
    let notes: String = reports.iter().map(|report| report.notes.as_str()).collect();
    let rows: Vec<_> = reports.into_iter().flat_map(|report| report.rows).collect();
    println!("--- summary\n{}\n{notes}", report::table(&rows));
    if json {
        println!("{}", json!({ "seconds": seconds, "benches": results }));
    }
    Ok(())
}

/// The processors of the machine and its load before the run.
fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split_whitespace().take(3).collect();
    format!("{processors} processors; load average before: {}", load.join(" "))
}

async fn run(name: &str, seconds: u64) -> Result<report::Report> {
    match name {
        "payments" => payments::run(seconds).await,
        "webhooks" => webhooks::run(seconds).await,
        "workers" => workers::run(seconds).await,
        "reads" => reads::run(seconds).await,
        "scheduler" => scheduler::run(seconds).await,
        other => bail!("unknown benchmark {other}"),
    }
}

/// Options of `ctl accounts create` for an account without an effective rate limit.
const NO_LIMIT: [&str; 8] = ["--mode", "test", "--provider", "mock", "--rate-limit", "1000000", "--burst", "1000000"];

/// One process of each kind, configured as in production, and a Postgres with `fsync` on.
async fn cluster() -> Result<Cluster> {
    let one_of_each = Cluster::builder().api(1).worker(1).scheduler(1);
    one_of_each.durable().env("RUST_LOG", "warn").env("KEY_CACHE_MS", "1000").start().await
}

/// The duration of each load, from `--seconds N`.
fn seconds(arguments: &[String]) -> Result<u64> {
    match arguments.iter().position(|argument| argument == "--seconds").map(|at| arguments.get(at + 1)) {
        None => Ok(5),
        Some(Some(text)) => Ok(text.parse()?),
        Some(None) => bail!("--seconds needs a number"),
    }
}
