//! A blocked recurring invoice. Concurrent and interrupted runs are tested with the engine.

use anyhow::{Context, Result};
use testkit::{Client, Cluster, ProcessKind};

use super::{backdate_start, create_future, day, merchant_in, periods, set, wait_for_invoices};
use crate::support::{eventually, uuid};

#[tokio::test]
async fn locked_recurring_invoices_block_no_others_and_show_in_the_lag() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).start().await?;
    let merchant = merchant_in(&cluster).await?;
    let (locked, free) = (create_future(&merchant).await?, create_future(&merchant).await?);
    for (recurring, days) in [(&locked, -3), (&free, -1)] {
        backdate_start(&merchant, recurring, &day(&merchant, days).await?).await?;
        // Only one cycle is due.
        set(&merchant, recurring, "end_date = next_date").await?;
    }
    let mut tx = merchant.books.db.begin().await?;
    let lock = sqlx::query("SELECT FROM recurring_invoices WHERE id = $1 FOR NO KEY UPDATE");
    lock.bind(uuid(&locked)?).execute(&mut *tx).await?;

    cluster.add(ProcessKind::Scheduler).await?;
    wait_for_invoices(&merchant, &free, 1).await?;
    let internal = Client::new(&cluster.metrics_url(ProcessKind::Scheduler, 0))?;
    let age = async || -> Result<f64> {
        let text = String::from_utf8(internal.get("/metrics").await?.bytes)?;
        let metric = "billing_oldest_due_age_seconds{work=\"recurring_invoices\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(metric)).context("no metric")?;
        Ok(line.parse()?)
    };
    // It has been due for three and a half days: it is about noon.
    let (min, max) = (3.0 * 86_400.0, 4.0 * 86_400.0);
    eventually("the lag of the locked one", async || Ok((min..max).contains(&age().await?).then_some(()))).await?;
    assert!(periods(&merchant, &locked).await?.is_empty());
    tx.rollback().await?;
    wait_for_invoices(&merchant, &locked, 1).await?;
    eventually("no lag", async || Ok((age().await? == 0.0).then_some(()))).await
}
