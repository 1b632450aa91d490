//! Deletion is final, at once, and for one endpoint alone.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::{Endpoint, replay, story};
use crate::support::{Receiver, Reply, conflict, merchant};

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
        let is_pending = |deliveries: &[serde_json::Value]| deliveries.iter().any(|one| one["status"] == "pending");
        let deliveries = crate::support::eventually("an end of what was pending", async || {
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
