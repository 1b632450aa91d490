//! Redis forgets, Redis is away, workers are killed: whatever was accepted arrives.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use testkit::Cluster;

use super::{Endpoint, nothing_is_pending};
use crate::support::{Merchant, Receiver, Reply, Request, created, sale, together};

const EVENTS: usize = 20;

/// Each event in the same bytes, however often it came; answers the events.
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
async fn without_redis_everything_arrives_and_no_secret_is_ever_logged() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("RUST_LOG", "debug").start().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = Merchant::new(&cluster).await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    let make_events = async || together(EVENTS, async |_| merchant.customer().await).await;

    // Accepted while nobody delivers, and then forgotten by Redis.
    cluster.worker(0).pause()?;
    make_events().await?;
    cluster.redis.flush_all().await?;
    cluster.worker(0).resume()?;
    receiver.hears("/in", EVENTS).await?;

    cluster.redis.kill9()?;
    make_events().await?;
    created(&merchant.pay(100).await?);
    receiver.hears("/in", 2 * EVENTS + 1).await?;
    cluster.redis.restart().await?;
    make_events().await?;
    created(&merchant.api.post("/v1/payments", sale(200)).await?);
    receiver.hears("/in", 3 * EVENTS + 2).await?;

    nothing_is_pending(&merchant).await?;
    let requests = receiver.heard("/in");
    assert_eq!(events_of(&requests).len(), 3 * EVENTS + 2);
    assert_eq!(requests.len(), 3 * EVENTS + 2, "nothing was lost, so nothing was sent twice");

    let rotated = endpoint.rotate().await?;
    merchant.customer().await?;
    receiver.hears("/in", 3 * EVENTS + 3).await?;
    for process in cluster.processes() {
        let log = process.log();
        for secret in [&endpoint.secret, &rotated] {
            assert!(!log.contains(&secret["whsec_".len()..]), "{} logs a secret", process.kind().name());
        }
    }
    Ok(())
}

#[tokio::test]
async fn killed_workers_lose_nothing() -> Result<()> {
    const PATHS: [&str; 3] = ["/a", "/b", "/c"];
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(1).start().await?;
    // Nothing is ever answered to all three while the workers live: they die in the middle.
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
        together(EVENTS, async |_| merchant.customer().await).await?;
        for (killed, victim) in victims.into_iter().enumerate() {
            receiver.hears("/a", round * EVENTS + 2 + killed).await?;
            cluster.worker(victim).kill9()?;
        }
        receiver.release();
        for victim in victims {
            cluster.worker(victim).restart().await?;
        }
        // The leases of the dead would end by themselves; there is nobody left who could still be sending.
        sqlx::query("UPDATE webhook_pending SET lease_until = now() WHERE account_id = $1")
            .bind(merchant.books.account)
            .execute(&merchant.books.db)
            .await?;
        nothing_is_pending(&merchant).await?;
        for path in PATHS {
            assert_eq!(events_of(&receiver.heard(path)).len(), (round + 1) * EVENTS, "{path}");
        }
    }
    events_of(&receiver.all());
    Ok(())
}
