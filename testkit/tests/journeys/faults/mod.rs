//! Faults of processes, servers, networks, clocks and providers: no accepted payment is lost, no card is charged twice,
//! and all work finishes without an operator.

mod clocks;
mod differences;
mod disputed_money;
mod hanging_commits;
mod lost_responses;
mod network;
mod outages;
mod reconciliation;
mod redis_outages;
mod statements;
mod stopping;
mod storage;
mod unresponsive;
mod worker;

use std::sync::Arc;

use anyhow::{Context, Result};
use testkit::{Client, Cluster, ProcessKind};

use crate::support::{Lease, eventually};

/// A cluster with one process of each kind.
pub(crate) async fn own_cluster() -> Result<Cluster> {
    Cluster::builder().api(1).worker(1).scheduler(1).start().await
}

/// A cluster for tests whose faults concern one account: its rows here and at its provider, or what its provider does.
async fn cluster_of_faulty_accounts() -> Result<Arc<Cluster>> {
    static SHARED: Lease = Lease::new();
    SHARED.or_start(Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start()).await
}

/// The number of operations in manual review, as the scheduler's metric reports it.
pub(crate) async fn in_manual_review(metrics_url: &str) -> Result<f64> {
    let metrics = Client::new(metrics_url)?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let line = text.lines().find_map(|line| line.strip_prefix("payments_operations_in_manual_review{mode=\"test\"} "));
    Ok(line.context("the metric does not exist yet")?.parse()?)
}

/// Asserts that no process has exited, and waits until all are ready.
async fn assert_all_ready(cluster: &mut Cluster) -> Result<()> {
    for process in cluster.processes() {
        assert!(process.exit_status()?.is_none(), "{} has ended", process.kind().name());
        let internal = Client::new(&process.metrics_url())?;
        let ready = async || Ok((internal.get("/readyz").await?.status == 200).then_some(()));
        eventually("a process to be ready", ready).await?;
    }
    Ok(())
}

/// The URL of the scheduler's internal listener.
pub(crate) fn scheduler_url(cluster: &Cluster) -> String {
    cluster.metrics_url(ProcessKind::Scheduler, 0)
}
