//! After a restore nothing is collected until somebody has looked what was charged already.

use anyhow::Result;
use testkit::{Cluster, Kind};

use super::{LONG_AGO, attempts, becomes, customer_with, invoice, schedule};
use crate::support::{Merchant, eventually, figure, ok};

/// How often the scheduler has looked for invoices to collect.
async fn looks(cluster: &Cluster) -> Result<f64> {
    figure(cluster, Kind::Scheduler, "scheduler_ticks_total{tick=\"collections\",outcome=\"ok\"}").await
}

#[tokio::test]
async fn what_is_due_waits_while_collections_are_held() -> Result<()> {
    let builder = Cluster::builder().api(1).worker(1).scheduler(1);
    let mut cluster = builder.env("COLLECTIONS_HELD", "true").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let invoice = invoice(&merchant, &customer, 900).await?;
    ok(&schedule(&merchant, &invoice, LONG_AGO).await?);

    let before = looks(&cluster).await?;
    let looked = async || Ok((looks(&cluster).await? >= before + 3.0).then_some(()));
    eventually("three looks", looked).await?;
    assert!(attempts(&merchant, &invoice).await?.is_empty(), "nothing was begun");

    let scheduler = cluster.scheduler(0);
    scheduler.set_env("COLLECTIONS_HELD", "");
    scheduler.terminate().await?;
    scheduler.restart().await?;
    becomes(&merchant, &invoice, "paid").await?;
    Ok(())
}
