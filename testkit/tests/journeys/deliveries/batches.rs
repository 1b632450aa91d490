//! Attempts that end at the same time are recorded in one batch, and each gets its own outcome, without waiting for others.

use anyhow::Result;
use testkit::{Client, Cluster, ProcessKind};

use super::{Endpoint, summaries, wait_for_blocked_statement};
use crate::support::{Books, Merchant, Receiver, Reply, eventually, uuid};

const WARM_UP: usize = 4;

/// The number of attempts that have ended in the worker, recorded or not.
async fn attempts(cluster: &Cluster) -> Result<f64> {
    let metrics = Client::new(&cluster.metrics_url(ProcessKind::Worker, 0))?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let counters = text.lines().filter(|line| line.starts_with("webhooks_attempts_total{"));
    Ok(counters.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// Ends `count` attempts at once and has them recorded in one batch: while they end, the worker waits for a lock to
/// record the failure of a delivery to `stuck`, which this function causes.
async fn in_one_batch(cluster: &Cluster, stuck: &Merchant, count: usize, end: impl FnOnce()) -> Result<()> {
    let Books { db, .. } = &stuck.books;
    let mut lock = db.begin().await?;
    // This blocks recording but not claiming.
    sqlx::query("LOCK TABLE webhook_deliveries IN SHARE MODE").execute(&mut *lock).await?;
    stuck.customer().await?;
    wait_for_blocked_statement(db).await?;
    let before = attempts(cluster).await?;
    end();
    let expected = before + count as f64;
    eventually("all attempts to end", async || Ok((attempts(cluster).await? >= expected).then_some(()))).await?;
    lock.rollback().await?;
    Ok(())
}

/// Makes enough successful deliveries for the endpoint to be allowed concurrent attempts.
async fn warm_up(merchant: &Merchant, endpoint: &Endpoint<'_>) -> Result<()> {
    for count in 1..=WARM_UP {
        merchant.customer().await?;
        endpoint.done(count).await?;
    }
    Ok(())
}

#[tokio::test]
async fn attempts_recorded_in_one_batch_are_handled_separately() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let receiver = Receiver::start(|request| match (request.path.as_str(), request.nth) {
        ("/stuck", _) => Reply::status(500),
        (_, ..WARM_UP) => Reply::ok(),
        ("/gone", WARM_UP) => Reply::status(410).held(),
        // The first two attempts are overtaken by second attempts of the same deliveries, which fail.
        ("/twice", WARM_UP) => Reply::ok().held(),
        ("/twice", _) => Reply::status(500).held(),
        _ => Reply::ok().held(),
    })
    .await?;
    let stuck = Merchant::new(&cluster).await?;
    let stuck_endpoint = Endpoint::new(&stuck, &receiver, "/stuck", &[]).await?;

    let (gone, twice) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    let gone_endpoint = Endpoint::new(&gone, &receiver, "/gone", &[]).await?;
    let twice_endpoint = Endpoint::new(&twice, &receiver, "/twice", &[]).await?;
    // All preparation comes first, because a held attempt ends after 15 s.
    warm_up(&gone, &gone_endpoint).await?;
    warm_up(&twice, &twice_endpoint).await?;

    // A 410 and a success in the same batch.
    gone.customer().await?;
    receiver.wait_for_requests("/gone", WARM_UP + 1).await?;
    gone.customer().await?;
    receiver.wait_for_requests("/gone", WARM_UP + 2).await?;

    // Two deliveries, each attempted twice because its lease ended.
    for count in 1..=2 {
        twice.customer().await?;
        receiver.wait_for_requests("/twice", WARM_UP + count).await?;
    }
    sqlx::query("UPDATE webhook_pending SET lease_until = now() WHERE endpoint_id = $1")
        .bind(uuid(&twice_endpoint.id)?)
        .execute(&twice.books.db)
        .await?;
    receiver.wait_for_requests("/twice", WARM_UP + 4).await?;

    in_one_batch(&cluster, &stuck, 6, || receiver.release()).await?;
    stuck_endpoint.postpone_retry().await?;
    twice_endpoint.postpone_retry().await?;

    assert_eq!(gone_endpoint.wait_for_status("disabled").await?["disabledReason"], "gone");
    gone_endpoint.done(WARM_UP + 2).await?;
    // One delivery succeeded and is done. The other failed twice and has one pending attempt.
    let deliveries = eventually("the records", async || {
        let deliveries = twice_endpoint.deliveries().await?;
        Ok((deliveries.len() > WARM_UP + 4).then_some(deliveries))
    })
    .await?;
    let mut attempted = summaries(&deliveries[WARM_UP..]);
    attempted.sort();
    let failed = "1 failed status 500";
    assert_eq!(attempted, [failed, failed, failed, "1 succeeded 200", "2 pending"]);
    let arrived = deliveries[WARM_UP..].iter().find(|delivery| delivery["status"] == "succeeded");
    let pending = deliveries.iter().find(|delivery| delivery["status"] == "pending");
    assert_ne!(arrived.map(|one| &one["eventId"]), pending.map(|one| &one["eventId"]));
    // The worker still records later attempts.
    stuck_endpoint.wait_for(&[failed, "2 pending"]).await?;
    Ok(())
}

/// As the deletion of a customer locks the deliveries of its events, for as long as it takes.
#[tokio::test]
async fn a_locked_delivery_delays_the_recording_of_no_other() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/locked" => Reply::ok().held(),
        _ => Reply::ok(),
    })
    .await?;
    let (merchant, other) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    let locked_endpoint = Endpoint::new(&merchant, &receiver, "/locked", &[]).await?;
    let other_endpoint = Endpoint::new(&other, &receiver, "/other", &[]).await?;
    merchant.customer().await?;
    receiver.wait_for_requests("/locked", 1).await?;
    let mut lock = merchant.books.db.begin().await?;
    sqlx::query("SELECT FROM webhook_pending WHERE endpoint_id = $1 FOR NO KEY UPDATE")
        .bind(uuid(&locked_endpoint.id)?)
        .execute(&mut *lock)
        .await?;
    receiver.release();
    eventually("the attempt to end", async || Ok((attempts(&cluster).await? >= 1.0).then_some(()))).await?;

    for count in 1..=2 {
        other.customer().await?;
        other_endpoint.done(count).await?;
    }
    locked_endpoint.wait_for(&["1 pending"]).await?;
    lock.rollback().await?;
    locked_endpoint.wait_for(&["1 succeeded 200"]).await?;
    Ok(())
}
