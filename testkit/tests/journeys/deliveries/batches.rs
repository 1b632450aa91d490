//! Attempts that end at the same time are recorded together. Whatever else is in a batch, each gets its due.

use anyhow::Result;
use testkit::{Client, Cluster, Kind};

use super::{Endpoint, somebody_waits_for_a_lock, stories};
use crate::support::{Books, Merchant, Receiver, Reply, eventually, uuid};

const WARM_UP: usize = 4;

/// How many attempts have ended in the worker, recorded or not.
async fn attempts(cluster: &Cluster) -> Result<f64> {
    let metrics = Client::new(&cluster.metrics_url(Kind::Worker, 0))?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let figures = text.lines().filter(|line| line.starts_with("webhooks_attempts_total{"));
    Ok(figures.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// Ends `count` attempts at once and has them recorded in one batch: while they end, the worker waits for a lock to record
/// the failure of `stuck`, for which an event is made here.
async fn in_one_batch(cluster: &Cluster, stuck: &Merchant, count: usize, end: impl FnOnce()) -> Result<()> {
    let Books { db, .. } = &stuck.books;
    let mut lock = db.begin().await?;
    // Records wait for this, and claims do not.
    sqlx::query("LOCK TABLE webhook_deliveries IN SHARE MODE").execute(&mut *lock).await?;
    stuck.customer().await?;
    somebody_waits_for_a_lock(db).await?;
    let before = attempts(cluster).await?;
    end();
    let all = before + count as f64;
    eventually("all to end", async || Ok((attempts(cluster).await? >= all).then_some(()))).await?;
    lock.rollback().await?;
    Ok(())
}

/// As many successes as let the endpoint have some attempts at once.
async fn warm_up(merchant: &Merchant, endpoint: &Endpoint<'_>) -> Result<()> {
    for count in 1..=WARM_UP {
        merchant.customer().await?;
        endpoint.done(count).await?;
    }
    Ok(())
}

#[tokio::test]
async fn attempts_recorded_together_each_get_their_due() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let receiver = Receiver::start(|request| match (request.path.as_str(), request.nth) {
        ("/stuck", _) => Reply::status(500),
        (_, ..WARM_UP) => Reply::ok(),
        ("/gone", WARM_UP) => Reply::status(410).held(),
        // The first two attempts are overtaken by others of the same deliveries, which fail.
        ("/twice", WARM_UP) => Reply::ok().held(),
        ("/twice", _) => Reply::status(500).held(),
        _ => Reply::ok().held(),
    })
    .await?;
    let stuck = Merchant::new(&cluster).await?;
    let stuck_endpoint = Endpoint::new(&stuck, &receiver, "/stuck", &[]).await?;

    // A 410 beside a success.
    let gone = Merchant::new(&cluster).await?;
    let gone_endpoint = Endpoint::new(&gone, &receiver, "/gone", &[]).await?;
    warm_up(&gone, &gone_endpoint).await?;
    gone.customer().await?;
    receiver.hears("/gone", WARM_UP + 1).await?;
    gone.customer().await?;
    receiver.hears("/gone", WARM_UP + 2).await?;

    // Two deliveries, each attempted twice, because the leases ended in between.
    let twice = Merchant::new(&cluster).await?;
    let twice_endpoint = Endpoint::new(&twice, &receiver, "/twice", &[]).await?;
    warm_up(&twice, &twice_endpoint).await?;
    for count in 1..=2 {
        twice.customer().await?;
        receiver.hears("/twice", WARM_UP + count).await?;
    }
    sqlx::query("UPDATE webhook_pending SET lease_until = now() WHERE endpoint_id = $1")
        .bind(uuid(&twice_endpoint.id)?)
        .execute(&twice.books.db)
        .await?;
    receiver.hears("/twice", WARM_UP + 4).await?;

    in_one_batch(&cluster, &stuck, 6, || receiver.release()).await?;

    assert_eq!(gone_endpoint.becomes("disabled").await?["disabledReason"], "gone");
    gone_endpoint.done(WARM_UP + 2).await?;
    // The one has arrived, and is over; the other has failed twice, and has one attempt ahead of it.
    let deliveries = eventually("the records", async || {
        let deliveries = twice_endpoint.deliveries().await?;
        Ok((deliveries.len() > WARM_UP + 4).then_some(deliveries))
    })
    .await?;
    let mut told = stories(&deliveries[WARM_UP..]);
    told.sort();
    let failed = "1 failed status 500";
    assert_eq!(told, [failed, failed, failed, "1 succeeded 200", "2 pending"]);
    let arrived = deliveries[WARM_UP..].iter().find(|delivery| delivery["status"] == "succeeded");
    let pending = deliveries.iter().find(|delivery| delivery["status"] == "pending");
    assert_ne!(arrived.map(|one| &one["eventId"]), pending.map(|one| &one["eventId"]));
    // And the worker records whatever comes next.
    stuck_endpoint.tells(&[failed, "2 pending"]).await?;
    Ok(())
}
