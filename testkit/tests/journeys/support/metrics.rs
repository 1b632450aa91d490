//! Metrics of a process, read as Prometheus does.

use anyhow::{Context, Result};
use testkit::{Client, Cluster, ProcessKind};

/// The value of a metric, given by name and labels, of the first process of a kind.
pub(crate) async fn metric(cluster: &Cluster, kind: ProcessKind, name: &str) -> Result<f64> {
    let metrics = Client::new(&cluster.metrics_url(kind, 0))?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no {name} yet"))?.parse()?)
}
