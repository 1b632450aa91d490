//! `bench workers`: payments per second with one, two and four workers and a slow provider.
//!
//! Each worker may have few payments in flight, so that the provider limits it and not the processors of this machine:
//! `IN_FLIGHT` payments, each of `LATENCY_MS`, are the most that one worker can do.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::{
    load::{self, Exchange},
    report::{Goal, Report, Row},
};
use crate::{Cluster, ProcessKind};

const LATENCY_MS: u32 = 200;
/// Payments that one worker may have in flight.
const IN_FLIGHT: u32 = 6;
const WORKERS: [usize; 3] = [1, 2, 4];
/// Clients per in-flight payment, so that another request is always waiting.
const CLIENTS_PER_SLOT: usize = 2;
const WARM_UP: Duration = Duration::from_secs(1);
/// The throughput per worker with several workers, as a fraction of that of a single worker, must reach this.
const MIN_SCALING: f64 = 0.85;

/// Runs the loads, prints a table and returns the report.
pub(super) async fn run(seconds: u64) -> Result<Report> {
    let limit = IN_FLIGHT.to_string();
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).durable();
    let cluster = cluster.env("RUST_LOG", "warn").env("KEY_CACHE_MS", "1000").env("WORKER_PAYMENT_CONCURRENCY", &limit);
    let mut cluster = cluster.start().await?;
    let account = cluster.account_with(&super::NO_LIMIT).await?;
    cluster.ctl(&["mock", "set", &account.id, "--latency-ms", &LATENCY_MS.to_string()]).await?;
    let pay = Exchange::post(
        &cluster.api_url(0),
        "/v1/payments",
        &account.secret_key,
        r#"{"amount":1250,"currency":"USD","paymentToken":"tok_ok"}"#,
        "\"status\":\"pending_settlement\"",
    );
    let single_worker_limit = f64::from(IN_FLIGHT) / (f64::from(LATENCY_MS) / 1000.0);
    println!(
        "provider latency {LATENCY_MS} ms, {IN_FLIGHT} payments in flight per worker: at most {single_worker_limit:.0}/s per worker"
    );
    println!("workers  clients  payments/s   p50 ms   p99 ms   vs. 1");
    let (mut rows, mut loads, mut single_worker) = (Vec::new(), Vec::new(), 0.0);
    for count in WORKERS {
        for _ in cluster.processes().iter().filter(|process| process.kind() == ProcessKind::Worker).count()..count {
            cluster.add(ProcessKind::Worker).await?;
        }
        let clients = CLIENTS_PER_SLOT * count * usize::try_from(IN_FLIGHT)?;
        load::closed_loop(clients, WARM_UP, &pay).await?;
        let measurement = load::closed_loop(clients, Duration::from_secs(seconds.max(3)), &pay).await?;
        let per_second = measurement.per_second;
        if count == 1 {
            single_worker = per_second;
        }
        let (p50, p99) = (measurement.percentile(50), measurement.percentile(99));
        println!(
            "{count:>7} {clients:>8} {per_second:>11.1} {p50:>8.0} {p99:>8.0} {:>7.2}",
            per_second / single_worker
        );
        loads.push(json!({
            "workers": count, "clients": clients, "payments_per_second": per_second, "p50_ms": p50, "p99_ms": p99,
            "of_one": per_second / single_worker,
        }));
        rows.push(if count == 1 {
            let what = format!("payments/s of 1 worker, {IN_FLIGHT} at a time of {LATENCY_MS} ms");
            Row { bench: "workers", what, ours: per_second, baseline: Some(single_worker_limit), goal: Goal::None }
        } else {
            let goal = Goal::AtLeast(MIN_SCALING * count as f64);
            let what = format!("payments/s of {count} workers, vs. 1");
            Row { bench: "workers", what, ours: per_second, baseline: Some(single_worker), goal }
        });
    }
    let details = json!({
        "bench": "workers", "latency_ms": LATENCY_MS, "under_way": IN_FLIGHT, "at_most_alone": single_worker_limit, "loads": loads,
    });
    Ok(Report { rows, details, ..Report::default() })
}
