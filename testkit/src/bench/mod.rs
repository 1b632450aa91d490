//! Benchmarks of the whole system: real processes, a Postgres that waits for its disk, and beside them a floor that the
//! same machine reaches in the same run. Figures are ratios first: a shared machine has no honest absolute ones.

mod floor;
pub mod hop;
mod load;
mod payments;
mod reads;
mod receiver;
mod report;
mod scheduler;
mod size;
mod usage;
mod webhooks;
mod workers;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::Cluster;

/// Each benchmark by its name, in the order in which `all` runs them.
const ALL: [&str; 5] = ["payments", "webhooks", "workers", "reads", "scheduler"];

/// Runs the benchmark that the command line names, or all of them, and prints what they found as one table; `--json` prints
/// one object last.
///
/// # Errors
/// When there is no such benchmark, or it fails.
pub async fn command(arguments: &[String]) -> Result<()> {
    let json = arguments.iter().any(|argument| argument == "--json");
    let seconds = seconds(arguments)?;
    let wanted = match arguments.first().map(String::as_str) {
        Some("all") => &ALL[..],
        Some(name) => match ALL.iter().position(|known| *known == name) {
            Some(at) => &ALL[at..=at],
            None => bail!("bench all|payments|webhooks|workers|reads|scheduler [--seconds N] [--json]"),
        },
        None => bail!("bench all|payments|webhooks|workers|reads|scheduler [--seconds N] [--json]"),
    };
    println!("{}", machine());
    let mut reports = Vec::new();
    for name in wanted {
        println!("--- {name}");
        reports.push(run(name, seconds).await?);
    }
    let found: Vec<Value> = reports.iter().map(report::Report::json).collect();
    let below: String = reports.iter().map(|report| report.below.as_str()).collect();
    let rows: Vec<_> = reports.into_iter().flat_map(|report| report.rows).collect();
    println!("--- all of it\n{}\n{below}", report::table(&rows));
    if json {
        println!("{}", json!({ "seconds": seconds, "benches": found }));
    }
    Ok(())
}

/// What the figures are of, and what else it had to do before.
fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split_whitespace().take(3).collect();
    format!("{processors} processors; load before: {}", load.join(" "))
}

async fn run(name: &str, seconds: u64) -> Result<report::Report> {
    match name {
        "payments" => payments::run(seconds).await,
        "webhooks" => webhooks::run(seconds).await,
        "workers" => workers::run(seconds).await,
        "reads" => reads::run(seconds).await,
        "scheduler" => scheduler::run(seconds).await,
        other => bail!("there is no benchmark {other}"),
    }
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
