//! Redis loses its data, Redis is down, workers are killed: every accepted event is still delivered.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use testkit::Cluster;

use super::{Endpoint, nothing_is_pending};
use crate::support::{Merchant, Receiver, Reply, Request, concurrently, created, sale};

const EVENTS: usize = 20;

/// Asserts that each event always has the same bytes, and returns the event ids.
#[track_caller]
pub(super) fn events_of(requests: &[Request]) -> BTreeSet<&str> {
    let mut bytes = BTreeMap::new();
    for request in requests {
        let first = bytes.entry(request.header("webhook-id")).or_insert(&request.body);
        assert!(*first == &request.body, "the bytes of an event never change");
    }
    bytes.into_keys().collect()
}

#[tokio::test]
async fn without_redis_every_event_is_delivered_and_no_secret_is_logged() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("RUST_LOG", "debug").start().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = Merchant::new(&cluster).await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    let make_events = async || concurrently(EVENTS, async |_| merchant.customer().await).await;

    // Accepted while no worker runs, and then lost by Redis.
    cluster.worker(0).pause()?;
    make_events().await?;
    cluster.redis.flush_all().await?;
    cluster.worker(0).resume()?;
    receiver.wait_for_requests("/in", EVENTS).await?;

    cluster.redis.kill9()?;
    make_events().await?;
    created(&merchant.pay(100).await?);
    receiver.wait_for_requests("/in", 2 * EVENTS + 1).await?;
    cluster.redis.restart().await?;
    make_events().await?;
    created(&merchant.api.post("/v1/payments", sale(200)).await?);
    receiver.wait_for_requests("/in", 3 * EVENTS + 2).await?;

    nothing_is_pending(&merchant).await?;
    let requests = receiver.received("/in");
    assert_eq!(events_of(&requests).len(), 3 * EVENTS + 2);
    assert_eq!(requests.len(), 3 * EVENTS + 2, "nothing is lost, and nothing is sent twice");

    let rotated = endpoint.rotate().await?;
    merchant.customer().await?;
    receiver.wait_for_requests("/in", 3 * EVENTS + 3).await?;
    for process in cluster.processes() {
        let log = process.log();
        for secret in [&endpoint.secret, &rotated] {
            assert!(!log.contains(&secret["whsec_".len()..]), "{} logs a secret", process.kind().name());
        }
    }
    Ok(())
}

#[tokio::test]
async fn killed_workers_lose_no_delivery() -> Result<()> {
    const PATHS: [&str; 3] = ["/a", "/b", "/c"];
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(1).start().await?;
    // `/c` does not respond while the workers run, so they are killed during attempts.
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/c" => Reply::ok().held(),
        _ => Reply::ok().after(100),
    })
    .await?;
    let merchant = Merchant::new(&cluster).await?;
    for path in PATHS {
        Endpoint::new(&merchant, &receiver, path, &[]).await?;
    }
    for (round, victims) in [[0, 1], [1, 0]].into_iter().enumerate() {
        receiver.hold();
        concurrently(EVENTS, async |_| merchant.customer().await).await?;
        for (killed, victim) in victims.into_iter().enumerate() {
            receiver.wait_for_requests("/a", round * EVENTS + 2 + killed).await?;
            cluster.worker(victim).kill9()?;
        }
        receiver.release();
        for victim in victims {
            cluster.worker(victim).restart().await?;
        }
        // End the leases of the killed workers now instead of waiting; no process can still be sending.
        sqlx::query("UPDATE webhook_pending SET lease_until = now() WHERE account_id = $1")
            .bind(merchant.books.account)
            .execute(&merchant.books.db)
            .await?;
        nothing_is_pending(&merchant).await?;
        for path in PATHS {
            assert_eq!(events_of(&receiver.received(path)).len(), (round + 1) * EVENTS, "{path}");
        }
    }
    events_of(&receiver.all());
    Ok(())
}
