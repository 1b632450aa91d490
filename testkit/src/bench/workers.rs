//! `bench workers`: payments a second with one, two and four workers, at a provider that takes its time.
//!
//! Each worker may have few payments under way, so that the wait for the provider is what limits it, and not the
//! processors of this machine: `UNDER_WAY` of them, each of `LATENCY`, are all that one can do.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::{
    load::{self, Exchange},
    report::{Goal, Report, Row},
};
use crate::{Cluster, Kind};

const LATENCY_MS: u32 = 200;
/// Payments that one worker may have under way.
const UNDER_WAY: u32 = 6;
const WORKERS: [usize; 3] = [1, 2, 4];
/// Clients for each place of a worker: there is always one more that waits.
const CROWD: usize = 2;
const WARM_UP: Duration = Duration::from_secs(1);
/// Of what a worker alone does, each of several is to do so much.
const LINEAR: f64 = 0.85;

/// Runs the loads and prints a table; answers the report.
pub(super) async fn run(seconds: u64) -> Result<Report> {
    let limit = UNDER_WAY.to_string();
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).durable();
    let cluster = cluster.env("RUST_LOG", "warn").env("KEY_CACHE_MS", "1000").env("WORKER_MONEY_CONCURRENCY", &limit);
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
    let alone_at_most = f64::from(UNDER_WAY) / (f64::from(LATENCY_MS) / 1000.0);
    println!(
        "a provider of {LATENCY_MS} ms, {UNDER_WAY} payments under way in each worker: {alone_at_most:.0}/s at most"
    );
    println!("workers  clients  payments/s   p50 ms   p99 ms  of one");
    let (mut rows, mut loads, mut alone) = (Vec::new(), Vec::new(), 0.0);
    for count in WORKERS {
        for _ in cluster.processes().iter().filter(|one| one.kind() == Kind::Worker).count()..count {
            cluster.add(Kind::Worker).await?;
        }
        let clients = CROWD * count * usize::try_from(UNDER_WAY)?;
        load::closed_loop(clients, WARM_UP, &pay).await?;
        let measured = load::closed_loop(clients, Duration::from_secs(seconds.max(3)), &pay).await?;
        let per_second = measured.per_second;
        if count == 1 {
            alone = per_second;
        }
        let (p50, p99) = (measured.percentile(50), measured.percentile(99));
        println!("{count:>7} {clients:>8} {per_second:>11.1} {p50:>8.0} {p99:>8.0} {:>7.2}", per_second / alone);
        loads.push(json!({
            "workers": count, "clients": clients, "payments_per_second": per_second, "p50_ms": p50, "p99_ms": p99,
            "of_one": per_second / alone,
        }));
        rows.push(if count == 1 {
            let what = format!("payments/s of 1 worker, beside {UNDER_WAY} at once of {LATENCY_MS} ms");
            Row { bench: "workers", what, ours: per_second, floor: Some(alone_at_most), goal: Goal::None }
        } else {
            let goal = Goal::AtLeast(LINEAR * count as f64);
            let what = format!("payments/s of {count} workers, beside 1");
            Row { bench: "workers", what, ours: per_second, floor: Some(alone), goal }
        });
    }
    let details = json!({
        "bench": "workers", "latency_ms": LATENCY_MS, "under_way": UNDER_WAY, "at_most_alone": alone_at_most, "loads": loads,
    });
    Ok(Report { rows, details, ..Report::default() })
}
