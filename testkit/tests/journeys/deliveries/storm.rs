//! Many events for many endpoints, some of which never answer, while each worker is killed once and Redis forgets everything.
//! What the dead had in their hands is made again when its lease ends, by itself. `STORM_EVENTS` makes it a bigger one.

use std::{
    collections::{BTreeSet, HashMap},
    env,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};
use testkit::Cluster;
use tokio::time::Instant;

use super::{Endpoint, outages::events_of};
use crate::support::{Merchant, Receiver, Reply, eventually, together};

const ENDPOINTS: usize = 20;
const SILENT: usize = 5;
const CLIENTS: usize = 8;

fn percentile(sorted: &[u128], percent: usize) -> u128 {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

#[tokio::test]
async fn a_storm_reaches_everyone_who_answers() -> Result<()> {
    let events: usize = env::var("STORM_EVENTS").map_or(Ok(150), |count| count.parse())?;
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(1).start().await?;
    let receiver = Receiver::start(|request| match request.path.starts_with("/silent") {
        true => Reply::Silence,
        // Slow enough for some to be under way at any moment.
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
    let storm = together(CLIENTS, async |client| {
        for _ in (client..events).step_by(CLIENTS) {
            let customer = merchant.customer().await?;
            accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(customer, Instant::now());
        }
        Ok(())
    });
    let trouble = async {
        eventually("a third", async || Ok((count() >= events / 3).then_some(()))).await?;
        cluster.worker(0).kill9()?;
        cluster.worker(0).restart().await?;
        eventually("two thirds", async || Ok((count() >= events * 2 / 3).then_some(()))).await?;
        cluster.redis.flush_all().await?;
        cluster.worker(1).kill9()?;
        cluster.worker(1).restart().await
    };
    tokio::try_join!(storm, trouble)?;

    let answering: Vec<_> = (SILENT..ENDPOINTS).map(path).collect();
    let missing = || {
        let heard = answering.iter().map(|path| events_of(&receiver.heard(path)).len());
        heard.map(|heard| events - heard).sum::<usize>()
    };
    // As long as it takes, if only it goes on.
    let mut last = missing();
    while last > 0 {
        last = eventually("more", async || Ok(Some(missing()).filter(|missing| *missing < last))).await?;
    }
    let requests = receiver.all();
    assert_eq!(events_of(&requests).len(), events, "to all the same bytes");

    let accepted = accepted.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut seen, mut waits) = (BTreeSet::new(), Vec::new());
    for request in requests.iter().filter(|request| answering.contains(&request.path)) {
        if seen.insert((&request.path, request.header("webhook-id"))) {
            let event = request.event();
            let customer = event["data"]["object"]["id"].as_str().context("a customer")?;
            let answered = accepted.get(customer).context("a customer of ours")?;
            waits.push(request.at.saturating_duration_since(*answered).as_millis());
        }
    }
    assert_eq!(waits.len(), events * answering.len());
    waits.sort_unstable();
    let again = requests.iter().filter(|request| answering.contains(&request.path)).count() - waits.len();
    println!(
        "{events} events at {} endpoints: p50 {} ms, p99 {} ms from the answer to the delivery; {again} came again",
        answering.len(),
        percentile(&waits, 50),
        percentile(&waits, 99),
    );
    Ok(())
}
