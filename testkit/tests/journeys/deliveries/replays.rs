//! Replays send a past delivery again, independently of retries.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result};

use super::{Endpoint, assert_same, ended, is_signed_with, replay, summary};
use crate::support::{Receiver, Reply, concurrently, conflict, id, merchant, ok, uuid};

#[tokio::test]
async fn a_failed_replay_is_not_retried_and_keeps_pending_retries() -> Result<()> {
    let works = Arc::new(AtomicBool::new(false));
    let receiver = {
        let works = Arc::clone(&works);
        Receiver::start(move |_| Reply::status(if works.load(Ordering::Relaxed) { 200 } else { 500 })).await?
    };
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    merchant.customer().await?;
    endpoint.postpone_retry().await?;
    let attempts = endpoint.wait_for(&["1 failed status 500", "2 pending"]).await?;
    let (failed, retry) = (&attempts[0], &attempts[1]);
    conflict(&replay(&merchant, retry).await?);

    let again = replay(&merchant, failed).await?;
    assert_eq!(ok(&again)["status"], "pending");
    assert_eq!(again.body["replayOf"], failed["id"]);
    let again = ended(&merchant, &id(&again.body)?).await?;
    assert_eq!((summary(&again).as_str(), &again["replayOf"]), ("1 failed status 500", &failed["id"]));
    assert!(again.get("nextAttemptAt").is_none(), "{again}");
    let pending = endpoint.deliveries().await?;
    let pending: Vec<_> = pending.iter().filter(|delivery| delivery["status"] == "pending").collect();
    assert_eq!(pending, [retry], "the retry is unchanged by the replay");

    works.store(true, Ordering::Relaxed);
    endpoint.retry_now().await?;
    assert_eq!(summary(&ended(&merchant, &id(retry)?).await?), "2 succeeded 200");
    endpoint.done(3).await?;
    assert_eq!(receiver.count("/in"), 3);
    assert_same(&receiver.received("/in"));
    Ok(())
}

#[tokio::test]
async fn twenty_concurrent_replays_are_twenty_deliveries() -> Result<()> {
    const REPLAYS: usize = 20;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    merchant.customer().await?;
    let first = endpoint.done(1).await?.remove(0);
    let replays = concurrently(REPLAYS, async |_| replay(&merchant, &first).await).await?;
    let mut ids = replays.iter().map(|response| id(ok(response))).collect::<Result<Vec<_>>>()?;
    ids.push(id(&first)?);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), REPLAYS + 1);

    let deliveries = endpoint.done(REPLAYS + 1).await?;
    for delivery in &deliveries[1..] {
        assert_eq!((summary(delivery).as_str(), &delivery["replayOf"]), ("1 succeeded 200", &first["id"]));
        assert_eq!((&delivery["payload"], &delivery["eventId"]), (&first["payload"], &first["eventId"]));
    }
    let requests = receiver.received("/in");
    assert_eq!(requests.len(), REPLAYS + 1);
    assert_same(&requests);
    for request in &requests {
        assert!(is_signed_with(request, &[&endpoint.secret])?);
    }
    // A replay can itself be replayed.
    let again = replay(&merchant, &deliveries[1]).await?;
    assert_eq!(ok(&again)["replayOf"], deliveries[1]["id"]);
    receiver.wait_for_requests("/in", REPLAYS + 2).await?;
    assert_same(&receiver.received("/in"));
    Ok(())
}

#[tokio::test]
async fn a_replay_of_an_expired_event_fails_and_blocks_nothing() -> Result<()> {
    const REPLAYS: usize = 70;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    merchant.customer().await?;
    let first = endpoint.done(1).await?.remove(0);
    endpoint.pause().await?;
    for _ in 0..REPLAYS {
        ok(&replay(&merchant, &first).await?);
    }
    // The event's monthly partition has been dropped.
    let event = uuid(first["eventId"].as_str().context("an event")?)?;
    sqlx::query("DELETE FROM events WHERE id = $1").bind(event).execute(&merchant.books.db).await?;
    merchant.customer().await?;
    endpoint.resume().await?;

    let deliveries = endpoint.done(REPLAYS + 2).await?;
    for closed in &deliveries[1..=REPLAYS] {
        assert_eq!((summary(closed).as_str(), &closed["replayOf"]), ("1 failed event_expired", &first["id"]));
        assert_eq!(closed["failureMessage"], "the event is past its retention period");
        assert!(["attemptedAt", "nextAttemptAt", "payload"].iter().all(|field| closed[*field].is_null()), "{closed}");
    }
    assert_eq!(summary(&deliveries[REPLAYS + 1]), "1 succeeded 200");
    assert_eq!(receiver.count("/in"), 2);
    conflict(&replay(&merchant, &deliveries[1]).await?);
    Ok(())
}
