//! Deletion of an endpoint is final and immediate, and affects no other endpoint.

use std::iter::repeat_n;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use serde_json::Value;
use testkit::Cluster;
use uuid::Uuid;

use super::{Endpoint, replay, summary};
use crate::support::{Merchant, Receiver, Reply, conflict, eventually, merchant, uuid};

/// Events waiting for each endpoint when its first attempt starts.
const BACKLOG: usize = 20;

#[tokio::test]
async fn no_attempt_starts_after_a_deletion_was_answered() -> Result<()> {
    let merchant = merchant().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let live = Endpoint::new(&merchant, &receiver, "/live", &[]).await?;
    let mut receivers = Vec::new();
    for (path, started) in [("/one", 1), ("/two", 4), ("/three", 8), ("/hangs", 1)] {
        // The last attempts before the deletion are held, so that the backlog cannot be delivered before it.
        let receiver = Receiver::start(move |request| match request.nth + 1 < started {
            true => Reply::ok(),
            false if path == "/hangs" => Reply::Silence,
            false => Reply::ok().held(),
        });
        receivers.push((receiver.await?, path, started));
    }
    let mut to_delete = Vec::new();
    for (receiver, path, started) in &receivers {
        let endpoint = Endpoint::new(&merchant, receiver, path, &[]).await?;
        endpoint.pause().await?;
        to_delete.push((endpoint, receiver, *path, *started));
    }
    for _ in 0..BACKLOG {
        merchant.customer().await?;
    }

    let deleted = AtomicBool::new(false);
    let stream = async {
        let mut events = BACKLOG;
        while !deleted.load(Ordering::Relaxed) {
            merchant.customer().await?;
            events += 1;
        }
        anyhow::Ok(events)
    };
    let deletions = async {
        let mut started_attempts = Vec::new();
        for (endpoint, receiver, path, started) in &to_delete {
            endpoint.resume().await?;
            receiver.wait_for_requests(path, *started).await?;
            endpoint.delete().await?;
            started_attempts.push(receiver.count(path));
            receiver.release();
        }
        // The remaining endpoint receives further events; a deleted one would have received them too.
        receiver.wait_for_requests("/live", receiver.count("/live") + BACKLOG).await?;
        deleted.store(true, Ordering::Relaxed);
        anyhow::Ok(started_attempts)
    };
    let (events, started_attempts) = tokio::try_join!(stream, deletions)?;

    live.done(events).await?;
    for ((endpoint, receiver, path, _), started_attempts) in to_delete.iter().zip(started_attempts) {
        assert_eq!(receiver.count(path), started_attempts, "{path}");
        if *path == "/hangs" {
            continue;
        }
        let is_pending = |deliveries: &[Value]| deliveries.iter().any(|one| one["status"] == "pending");
        let deliveries = eventually("pending deliveries to be closed", async || {
            let deliveries = endpoint.deliveries().await?;
            Ok((!is_pending(&deliveries)).then_some(deliveries))
        })
        .await?;
        let (attempted, closed): (Vec<_>, Vec<_>) = deliveries.iter().partition(|one| one["attemptedAt"].is_string());
        assert_eq!(attempted.len(), started_attempts, "{path}");
        assert!(attempted.iter().all(|one| summary(one) == "1 succeeded 200"), "{attempted:#?}");
        assert!(
            !closed.is_empty() && closed.iter().all(|one| summary(one) == "1 failed endpoint_deleted"),
            "{closed:#?}"
        );
        conflict(&replay(&merchant, closed[0]).await?);
    }
    Ok(())
}

/// The worst case: the worker's claim has committed, and the worker is paused before it sends anything.
#[tokio::test]
async fn a_worker_delayed_after_its_claim_sends_nothing_after_deletion() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = Merchant::new(&cluster).await?;
    let to_delete = Endpoint::new(&merchant, &receiver, "/to_delete", &[]).await?;
    let live = Endpoint::new(&merchant, &receiver, "/live", &[]).await?;
    live.pause().await?;
    // A first claim prepares the statement, so that the next one is executed by a single message.
    let another = Merchant::new(&cluster).await?;
    let first = Endpoint::new(&another, &receiver, "/first", &[]).await?;
    another.customer().await?;
    first.done(1).await?;

    // The claim that waits is not always that of the new delivery; then the paused worker has not claimed it. Such a
    // delivery is let through, and another is made.
    let mut delivered = 0;
    while !pause_with_claim(&mut cluster, &merchant, uuid(&to_delete.id)?).await? {
        assert!(delivered < 5, "no attempt has claimed the delivery");
        cluster.worker(0).resume()?;
        delivered += 1;
        to_delete.done(delivered).await?;
    }

    to_delete.delete().await?;
    cluster.worker(0).resume()?;
    live.resume().await?;
    receiver.wait_for_requests("/live", 1).await?;
    // End the lease now instead of waiting for it.
    sqlx::query("UPDATE webhook_pending SET lease_until = now() WHERE endpoint_id = $1")
        .bind(uuid(&to_delete.id)?)
        .execute(&merchant.books.db)
        .await?;
    let expected: Vec<_> = repeat_n("1 succeeded 200", delivered).chain(["1 failed endpoint_deleted"]).collect();
    to_delete.wait_for(&expected).await?;
    assert_eq!(receiver.count("/to_delete"), delivered);
    Ok(())
}

/// Creates an event, and pauses the worker after its claim was executed and before it gets the response. Returns `false`
/// if the claim was not executed.
async fn pause_with_claim(cluster: &mut Cluster, merchant: &Merchant, endpoint: Uuid) -> Result<bool> {
    // The claim waits for this lock and commits while the worker is paused.
    cluster.worker(0).pause()?;
    merchant.customer().await?;
    let mut lock = merchant.books.db.begin().await?;
    sqlx::query("LOCK TABLE webhook_pending IN SHARE MODE").execute(&mut *lock).await?;
    cluster.worker(0).resume()?;
    let waiting = "SELECT count(*) > 0 FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = 'worker-claims' AND wait_event_type = 'Lock'";
    eventually("the claim to wait", async || {
        Ok(sqlx::query_scalar::<_, bool>(waiting).fetch_one(&merchant.books.db).await?.then_some(()))
    })
    .await?;
    cluster.worker(0).pause()?;
    lock.rollback().await?;
    let ended = "SELECT count(*) = 0 FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'worker-claims' AND state = 'active'";
    eventually("the end of the claim", async || {
        Ok(sqlx::query_scalar::<_, bool>(ended).fetch_one(&merchant.books.db).await?.then_some(()))
    })
    .await?;
    let claimed = "SELECT count(*) > 0 FROM webhook_pending WHERE endpoint_id = $1 AND lease_until > now()";
    Ok(sqlx::query_scalar(claimed).bind(endpoint).fetch_one(&merchant.books.db).await?)
}
