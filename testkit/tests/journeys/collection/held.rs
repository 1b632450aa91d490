//! After a restore nothing is collected until an operator has checked what was charged before.

use anyhow::Result;
use testkit::{Cluster, ProcessKind};

use super::{LONG_AGO, attempts, customer_with, invoice, schedule, wait_for_status};
use crate::support::{Merchant, eventually, metric, ok};

/// How often the scheduler has polled for invoices to collect.
async fn polls(cluster: &Cluster) -> Result<f64> {
    metric(cluster, ProcessKind::Scheduler, "scheduler_ticks_total{tick=\"collections\",outcome=\"ok\"}").await
}

#[tokio::test]
async fn due_invoices_wait_while_collections_are_held() -> Result<()> {
    let builder = Cluster::builder().api(1).worker(1).scheduler(1);
    let mut cluster = builder.env("COLLECTIONS_HELD", "true").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let invoice = invoice(&merchant, &customer, 900).await?;
    ok(&schedule(&merchant, &invoice, LONG_AGO).await?);

    let before = polls(&cluster).await?;
    let polled = async || Ok((polls(&cluster).await? >= before + 3.0).then_some(()));
    eventually("three polls", polled).await?;
    assert!(attempts(&merchant, &invoice).await?.is_empty(), "no attempt may start");

    let scheduler = cluster.scheduler(0);
    scheduler.set_env("COLLECTIONS_HELD", "");
    scheduler.terminate().await?;
    scheduler.restart().await?;
    wait_for_status(&merchant, &invoice, "paid").await?;
    Ok(())
}
