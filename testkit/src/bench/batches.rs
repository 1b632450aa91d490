//! The sizes of the batches in which the processes execute statements, from their metrics.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Context, Result};

/// Items and batches by the kind of batch, since the processes started.
pub(super) type Executed = BTreeMap<String, (f64, f64)>;

/// What the processes with these internal listeners have executed.
pub(super) async fn executed(urls: &[String]) -> Result<Executed> {
    let mut executed = Executed::new();
    for url in urls {
        let metrics = reqwest::get(format!("{url}/metrics")).await.context("cannot read the metrics")?.text().await?;
        for (series, value) in metrics.lines().filter_map(|line| line.split_once(' ')) {
            let sum = series.strip_prefix("database_batch_items_sum{batch=\"");
            let count = series.strip_prefix("database_batch_items_count{batch=\"");
            let Some(batch) = sum.or(count) else { continue };
            let (items, batches) = executed.entry(batch.trim_end_matches("\"}").to_owned()).or_default();
            *(if sum.is_some() { items } else { batches }) += value.parse::<f64>()?;
        }
    }
    Ok(executed)
}

/// The mean number of items per batch, of those kinds that were executed in between.
pub(super) fn mean_sizes(before: &Executed, after: &Executed) -> BTreeMap<String, f64> {
    let mean = |(batch, (items, batches)): (&String, &(f64, f64))| {
        let (items_before, batches_before) = before.get(batch).copied().unwrap_or_default();
        let batches = batches - batches_before;
        (batches > 0.0).then(|| (batch.clone(), (items - items_before) / batches))
    };
    after.iter().filter_map(mean).collect()
}

/// The means as text.
pub(super) fn text(means: &BTreeMap<String, f64>) -> String {
    let mut text = String::new();
    for (batch, mean) in means {
        let _ = write!(text, "  {batch} {mean:.1}");
    }
    text
}
