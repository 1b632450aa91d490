//! `bench payments`: the cost of a payment end to end, compared with the cost of its rows and commits alone.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::{
    baseline, batches, hop,
    load::{self, Exchange},
    report::{self, Goal, Report, Row},
    size,
    usage::{self, MeasuredProcess},
};
use crate::{Cluster, Process, TempDir};

const CLIENTS: [usize; 4] = [1, 8, 32, 64];
/// The number of clients for the comparison with the baseline.
const COMPARISON_CLIENTS: usize = 32;
const WARM_UP: Duration = Duration::from_secs(2);

/// Runs the loads, prints a table and returns the report.
pub(super) async fn run(seconds: u64) -> Result<Report> {
    let directory = TempDir::new()?;
    let mut cluster = super::cluster().await?;
    let account = cluster.account_with(&super::NO_LIMIT).await?;
    let body = r#"{"amount":1250,"currency":"USD","paymentToken":"tok_ok"}"#;
    let expected = "\"status\":\"pending_settlement\"";
    let pay = Exchange::post(&cluster.api_url(0), "/v1/payments", &account.secret_key, body, expected);
    let measured_processes = measured_processes(&mut cluster);
    let listeners: Vec<_> = cluster.processes().iter().map(Process::metrics_url).collect();
    load::closed_loop(COMPARISON_CLIENTS, WARM_UP, &pay).await?;
    let size_before = size::table_sizes(cluster.database_url()).await?;

    println!("clients  payments/s   p50 ms   p99 ms     CPU ms/payment  items per batch");
    let (mut loads, mut at_32, mut cpu_at_32) = (Vec::new(), 0.0, BTreeMap::new());
    for clients in CLIENTS {
        let executed = batches::executed(&listeners).await?;
        let before = usage::cpu_seconds(&measured_processes);
        let measured = load::closed_loop(clients, Duration::from_secs(seconds), &pay).await?;
        let cpu = per_payment(&before, &usage::cpu_seconds(&measured_processes), measured.count);
        let sizes = batches::mean_sizes(&executed, &batches::executed(&listeners).await?);
        let total: f64 = cpu.values().sum();
        let (p50, p99) = (measured.percentile(50), measured.percentile(99));
        let (per_second, cpu_ms, sizes_text) = (measured.per_second, total * 1000.0, batches::text(&sizes));
        println!("{clients:>7} {per_second:>11.0} {p50:>8.2} {p99:>8.2} {cpu_ms:>18.2}{sizes_text}");
        if clients == COMPARISON_CLIENTS {
            (at_32, cpu_at_32) = (per_second, cpu.clone());
        }
        loads.push(json!({
            "clients": clients, "payments_per_second": per_second, "p50_ms": p50, "p99_ms": p99,
            "cpu_seconds_per_payment": total, "cpu_seconds_per_payment_by_process": cpu, "items_per_batch": sizes,
        }));
    }
    let bytes = size::per_payment(&size_before, &size::table_sizes(cluster.database_url()).await?);
    println!("bytes per payment, including indexes: {bytes:.0?}");
    let memory = usage::memory_mib(&measured_processes);
    let notes = format!(
        "with {COMPARISON_CLIENTS} clients; memory after the loads\n{}",
        report::processes(&cpu_at_32, &memory)
    );
    let hops = hop::milliseconds(&cluster.redis.url()).await?;
    let (hop_p50, hop_p99) = (hop::percentile(&hops, 50), hop::percentile(&hops, 99));
    println!("queue alone, from push to handler, one at a time: p50 {hop_p50:.3} ms, p99 {hop_p99:.3} ms");
    let baseline = baseline::per_second(cluster.database_url(), directory.path(), COMPARISON_CLIENTS, seconds).await?;
    let ratio = at_32 / baseline;
    println!(
        "baseline: pgbench writes the same rows and commits {baseline:.0} times/s with {COMPARISON_CLIENTS} clients"
    );
    println!("ratio with {COMPARISON_CLIENTS} clients: {ratio:.2}");
    let cpu_ms = cpu_at_32.values().sum::<f64>() * 1000.0;
    let row = |what: String, ours, baseline, goal| Row { bench: "payments", what, ours, baseline, goal };
    let rows = vec![
        row(
            format!("payments/s with {COMPARISON_CLIENTS} clients, vs. pgbench"),
            at_32,
            Some(baseline),
            Goal::AtLeast(0.8),
        ),
        row(format!("CPU ms per payment with {COMPARISON_CLIENTS} clients"), cpu_ms, None, Goal::None),
        row("bytes per payment, including indexes".to_owned(), bytes.values().sum(), None, Goal::None),
        row("p50 ms of a queue hop".to_owned(), hop_p50, None, Goal::AtMost(2.0)),
    ];
    let details = json!({
        "bench": "payments", "seconds": seconds, "loads": loads, "baseline_per_second": baseline, "ratio": ratio,
        "cpu_seconds_per_payment_by_process": cpu_at_32, "memory_mib": memory, "bytes_a_payment": bytes, "queue_hop_p50_ms": hop_p50,
        "queue_hop_p99_ms": hop_p99,
    });
    Ok(Report { rows, notes, details })
}

/// The CPU seconds that each process has used per payment.
fn per_payment(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
    payments: usize,
) -> BTreeMap<String, f64> {
    let earlier = |name: &String| before.get(name).copied().unwrap_or_default();
    after.iter().map(|(name, seconds)| (name.clone(), (seconds - earlier(name)) / payments as f64)).collect()
}

/// Every process whose resource usage is measured.
pub(super) fn measured_processes(cluster: &mut Cluster) -> Vec<MeasuredProcess> {
    let mut measured_processes = vec![MeasuredProcess { name: "redis".to_owned(), pid: cluster.redis.pid() }];
    if let Some(postgres) = &cluster.postgres {
        measured_processes.push(MeasuredProcess { name: "postgres".to_owned(), pid: postgres.pid() });
    }
    for process in cluster.processes() {
        let name = process.kind().name();
        measured_processes.push(MeasuredProcess { name: name.to_owned(), pid: process.pid() });
    }
    measured_processes
}
