//! A secret that cannot be decrypted: nothing is sent without a signature, and nothing is lost.

use anyhow::Result;
use testkit::{Cluster, Kind};

use super::{Endpoint, is_signed_with, nothing_is_pending};
use crate::support::{Merchant, Receiver, Reply, eventually, figure};

/// A key that nothing was sealed under.
const OTHER_KEY: &str = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee";
const KEY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const HELD: usize = 5;

async fn webhooks_are(cluster: &Cluster, grade: &str) -> Result<()> {
    let ended = cluster.ctl_to_its_end(&["doctor", "--json"]).await?.json();
    let checks = ended["checks"].as_array().cloned().unwrap_or_default();
    let found = checks.iter().find(|check| check["check"] == "webhooks").cloned().unwrap_or_default();
    assert_eq!(found["grade"], grade, "{found}");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_signed_is_held_until_it_can_be() -> Result<()> {
    let builder = Cluster::builder().env("ENCRYPTION_KEY", KEY).env("KEYS_UNCHECKED", "true");
    let mut cluster = builder.api(1).worker(1).scheduler(1).start().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = Merchant::new(&cluster).await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    merchant.customer().await?;
    endpoint.done(1).await?;

    cluster.worker(0).set_env("ENCRYPTION_KEY", OTHER_KEY);
    cluster.worker(0).kill9()?;
    cluster.worker(0).restart().await?;
    for _ in 0..HELD {
        merchant.customer().await?;
    }
    // Whatever is done with the first of them.
    eventually("a delivery to be held or made", async || {
        let held = endpoint.is("to_jsonb(webhook_endpoints) ->> 'signing_failed_since' IS NOT NULL").await?;
        Ok((held || receiver.heard("/in").len() > 1).then_some(()))
    })
    .await?;
    eventually("another try", async || {
        let unsigned = figure(&cluster, Kind::Worker, "webhooks_unsigned_total").await;
        Ok((unsigned.is_ok_and(|unsigned| unsigned >= 2.0) || receiver.heard("/in").len() > 1).then_some(()))
    })
    .await?;
    let heard = receiver.heard("/in");
    assert_eq!(heard.len(), 1, "{:?}", heard.last().map(|request| &request.headers));
    // It is no failure of the endpoint, and a delivery that waits.
    assert!(endpoint.is("failing_since IS NULL AND last_failed_at IS NULL").await?);
    let deliveries = endpoint.deliveries().await?;
    for delivery in &deliveries[1..] {
        assert_eq!((&delivery["status"], &delivery["attempt"]), (&"pending".into(), &1.into()), "{delivery}");
    }
    assert_eq!(deliveries.len(), 1 + HELD);
    eventually("the figure", async || {
        let unsigned = figure(&cluster, Kind::Scheduler, "webhooks_endpoints_unsigned").await?;
        Ok((unsigned == 1.0).then_some(()))
    })
    .await?;
    webhooks_are(&cluster, "bad").await?;
    let listed = cluster.ctl(&["webhooks", "list"]).await?;
    assert!(listed["endpoints"][0]["signing_failed_since"].is_string(), "{listed}");

    cluster.worker(0).set_env("ENCRYPTION_KEY", KEY);
    cluster.worker(0).kill9()?;
    cluster.worker(0).restart().await?;
    nothing_is_pending(&merchant).await?;
    endpoint.done(1 + HELD).await?;
    let heard = receiver.heard("/in");
    assert_eq!(heard.len(), 1 + HELD);
    for request in &heard {
        assert!(is_signed_with(request, &[&endpoint.secret])?, "{:?}", request.headers);
    }
    assert!(endpoint.is("signing_failed_since IS NULL AND signing_retry_at IS NULL").await?);
    eventually("the figure", async || {
        let unsigned = figure(&cluster, Kind::Scheduler, "webhooks_endpoints_unsigned").await?;
        Ok((unsigned == 0.0).then_some(()))
    })
    .await?;
    webhooks_are(&cluster, "ok").await
}
