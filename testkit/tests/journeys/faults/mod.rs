//! What breaks: processes, servers and the provider. However it breaks, an accepted payment is not lost, nobody is charged
//! twice, and all comes to its end by itself.

mod api;
mod clocks;
mod differences;
mod handing_out;
mod hanging_commits;
mod late;
mod lost_answers;
mod network;
mod outages;
mod pairs;
mod reconciliation;
mod silence;
mod statements;
mod stopping;
mod storage;
mod worker;

use anyhow::{Context, Result};
use testkit::{Client, Cluster, Kind};

use crate::support::eventually;

/// A cluster of one process each.
pub(crate) async fn own_cluster() -> Result<Cluster> {
    Cluster::builder().api(1).worker(1).scheduler(1).start().await
}

/// Operations that wait for a person, as the scheduler tells the dashboards.
pub(crate) async fn for_a_person(metrics_url: &str) -> Result<f64> {
    let metrics = Client::new(metrics_url)?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let line = text.lines().find_map(|line| line.strip_prefix("payments_operations_for_a_person "));
    Ok(line.context("no such figure yet")?.parse()?)
}

/// All processes are still those that were started, and say that they are ready.
async fn all_are_ready(cluster: &mut Cluster) -> Result<()> {
    for process in cluster.processes() {
        assert!(process.ended()?.is_none(), "{} has ended", process.kind().name());
        let internal = Client::new(&process.metrics_url())?;
        let ready = async || Ok((internal.get("/readyz").await?.status == 200).then_some(()));
        eventually("a process to be ready", ready).await?;
    }
    Ok(())
}

/// The scheduler's internal address.
pub(crate) fn scheduler_url(cluster: &Cluster) -> String {
    cluster.metrics_url(Kind::Scheduler, 0)
}
