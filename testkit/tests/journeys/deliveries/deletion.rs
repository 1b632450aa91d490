//! Deletion is final, at once, and for one endpoint alone.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use serde_json::Value;
use testkit::Cluster;

use super::{Endpoint, replay, story};
use crate::support::{Merchant, Receiver, Reply, conflict, eventually, merchant, uuid};

/// Events that wait at each endpoint when its first attempt begins.
const BACKLOG: usize = 20;

#[tokio::test]
async fn no_attempt_begins_once_the_deletion_was_answered() -> Result<()> {
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/live" => Reply::ok(),
        "/hangs" => Reply::Silence,
        _ => Reply::ok().after(400),
    })
    .await?;
    let merchant = merchant().await?;
    let live = Endpoint::new(&merchant, &receiver, "/live", &[]).await?;
    let mut doomed = Vec::new();
    for (path, begun) in [("/one", 1), ("/two", 4), ("/three", 8), ("/hangs", 1)] {
        let endpoint = Endpoint::new(&merchant, &receiver, path, &[]).await?;
        endpoint.pause().await?;
        doomed.push((endpoint, path, begun));
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
        let mut begun = Vec::new();
        for (endpoint, path, under_way) in &doomed {
            endpoint.resume().await?;
            receiver.hears(path, *under_way).await?;
            endpoint.delete().await?;
            begun.push(receiver.count(path));
        }
        // Those who are left hear of what goes on, and so would the others.
        receiver.hears("/live", receiver.count("/live") + BACKLOG).await?;
        deleted.store(true, Ordering::Relaxed);
        anyhow::Ok(begun)
    };
    let (events, begun) = tokio::try_join!(stream, deletions)?;

    live.done(events).await?;
    for ((endpoint, path, _), begun) in doomed.iter().zip(begun) {
        assert_eq!(receiver.count(path), begun, "{path}");
        if *path == "/hangs" {
            continue;
        }
        let is_pending = |deliveries: &[Value]| deliveries.iter().any(|one| one["status"] == "pending");
        let deliveries = eventually("an end of what was pending", async || {
            let deliveries = endpoint.deliveries().await?;
            Ok((!is_pending(&deliveries)).then_some(deliveries))
        })
        .await?;
        let (made, closed): (Vec<_>, Vec<_>) = deliveries.iter().partition(|one| one["attemptedAt"].is_string());
        assert_eq!(made.len(), begun, "{path}");
        assert!(made.iter().all(|one| story(one) == "1 succeeded 200"), "{made:#?}");
        assert!(
            !closed.is_empty() && closed.iter().all(|one| story(one) == "1 failed endpoint_deleted"),
            "{closed:#?}"
        );
        conflict(&replay(&merchant, closed[0]).await?);
    }
    Ok(())
}

/// The worst moment: its claim has gone through, and it is held up before it can send anything.
#[tokio::test]
async fn a_worker_that_was_held_up_after_its_claim_begins_nothing_any_more() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = Merchant::new(&cluster).await?;
    let doomed = Endpoint::new(&merchant, &receiver, "/doomed", &[]).await?;
    let live = Endpoint::new(&merchant, &receiver, "/live", &[]).await?;
    live.pause().await?;
    // A first claim, so that the next is known to Postgres and goes through in one message.
    let another = Merchant::new(&cluster).await?;
    let first = Endpoint::new(&another, &receiver, "/first", &[]).await?;
    another.customer().await?;
    first.done(1).await?;

    // The claim waits for this lock before it does anything, and goes through while the worker is stopped.
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
    let claimed = "SELECT count(*) FROM webhook_pending WHERE endpoint_id = $1 AND lease_until > now()";
    eventually("the claim", async || {
        let claims =
            sqlx::query_scalar::<_, i64>(claimed).bind(uuid(&doomed.id)?).fetch_one(&merchant.books.db).await?;
        Ok((claims == 1).then_some(()))
    })
    .await?;

    doomed.delete().await?;
    cluster.worker(0).resume()?;
    live.resume().await?;
    receiver.hears("/live", 1).await?;
    // Its lease would end by itself.
    sqlx::query("UPDATE webhook_pending SET lease_until = now() WHERE endpoint_id = $1")
        .bind(uuid(&doomed.id)?)
        .execute(&merchant.books.db)
        .await?;
    doomed.tells(&["1 failed endpoint_deleted"]).await?;
    assert_eq!(receiver.count("/doomed"), 0);
    Ok(())
}
