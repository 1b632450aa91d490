//! Many events for many endpoints, some of which never respond, while each worker is killed once and Redis loses its
//! data. Deliveries claimed by a killed worker are attempted again when their lease ends. `STORM_EVENTS` sets the
//! number of events.

use std::{
    collections::{BTreeSet, HashMap},
    env,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};
use testkit::Cluster;
use tokio::time::Instant;

use super::{Endpoint, outages::events_of};
use crate::support::{Merchant, Receiver, Reply, concurrently, eventually};

const ENDPOINTS: usize = 20;
const SILENT: usize = 5;
const CLIENTS: usize = 8;

fn percentile(sorted: &[u128], percent: usize) -> u128 {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

#[tokio::test]
async fn a_storm_is_delivered_to_every_responding_endpoint() -> Result<()> {
    let events: usize = env::var("STORM_EVENTS").map_or(Ok(150), |count| count.parse())?;
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(1).env("DATABASE_POOL", "16").start().await?;
    let receiver = Receiver::start(|request| match request.path.starts_with("/silent") {
        true => Reply::Silence,
        // Slow enough for some attempts to be in flight at any time.
        false => Reply::ok().after(50),
    })
    .await?;
    let merchant = Merchant::new(&cluster).await?;
    let path = |number| format!("{}-{number}", if number < SILENT { "/silent" } else { "/answers" });
    for number in 0..ENDPOINTS {
        Endpoint::new(&merchant, &receiver, &path(number), &[]).await?;
    }

    let accepted = Mutex::new(HashMap::new());
    let count = || accepted.lock().unwrap_or_else(PoisonError::into_inner).len();
    let storm = concurrently(CLIENTS, async |client| {
        for _ in (client..events).step_by(CLIENTS) {
            let customer = merchant.customer().await?;
            accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(customer, Instant::now());
        }
        Ok(())
    });
    let faults = async {
        eventually("a third", async || Ok((count() >= events / 3).then_some(()))).await?;
        cluster.worker(0).kill9()?;
        cluster.worker(0).restart().await?;
        eventually("two thirds", async || Ok((count() >= events * 2 / 3).then_some(()))).await?;
        cluster.redis.flush_all().await?;
        cluster.worker(1).kill9()?;
        cluster.worker(1).restart().await
    };
    tokio::try_join!(storm, faults)?;

    let responding: Vec<_> = (SILENT..ENDPOINTS).map(path).collect();
    let missing = || {
        let received = responding.iter().map(|path| events_of(&receiver.received(path)).len());
        received.map(|received| events - received).sum::<usize>()
    };
    // No limit on the total time, as long as there is progress.
    let mut last = missing();
    while last > 0 {
        last = eventually("further deliveries", async || Ok(Some(missing()).filter(|missing| *missing < last))).await?;
    }
    let requests = receiver.all();
    assert_eq!(events_of(&requests).len(), events, "every event is delivered");

    let accepted = accepted.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut seen, mut waits) = (BTreeSet::new(), Vec::new());
    for request in requests.iter().filter(|request| responding.contains(&request.path)) {
        if seen.insert((&request.path, request.header("webhook-id"))) {
            let event = request.event();
            let customer = event["data"]["object"]["id"].as_str().context("a customer")?;
            let accepted_at = accepted.get(customer).context("an unknown customer")?;
            waits.push(request.at.saturating_duration_since(*accepted_at).as_millis());
        }
    }
    assert_eq!(waits.len(), events * responding.len());
    waits.sort_unstable();
    let repeated = requests.iter().filter(|request| responding.contains(&request.path)).count() - waits.len();
    println!(
        "{events} events at {} endpoints: p50 {} ms, p99 {} ms from the response to the delivery; {repeated} repeated",
        responding.len(),
        percentile(&waits, 50),
        percentile(&waits, 99),
    );
    Ok(())
}
