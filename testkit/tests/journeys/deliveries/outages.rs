//! Redis loses its data, or is down: every accepted event is still delivered.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use testkit::Cluster;

use super::{Endpoint, nothing_is_pending};
use crate::support::{Merchant, Receiver, Reply, Request, concurrently, created, sale};

const EVENTS: usize = 20;

/// Asserts that each event always has the same bytes, and returns the event ids.
#[track_caller]
fn events_of(requests: &[Request]) -> BTreeSet<&str> {
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
