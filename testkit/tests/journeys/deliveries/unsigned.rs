//! When an endpoint's secret cannot be decrypted, nothing is sent unsigned and nothing is lost.

use anyhow::Result;
use testkit::{Cluster, ProcessKind};

use super::{Endpoint, is_signed_with, nothing_is_pending};
use crate::support::{Merchant, Receiver, Reply, eventually, metric};

/// A key under which nothing was encrypted.
const OTHER_KEY: &str = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee";
const KEY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const HELD: usize = 5;

async fn assert_doctor_grade(cluster: &Cluster, grade: &str) -> Result<()> {
    let report = cluster.ctl_output(&["doctor", "--json"]).await?.json();
    let checks = report["checks"].as_array().cloned().unwrap_or_default();
    let found = checks.iter().find(|check| check["check"] == "webhooks").cloned().unwrap_or_default();
    assert_eq!(found["grade"], grade, "{found}");
    Ok(())
}

#[tokio::test]
async fn deliveries_that_cannot_be_signed_are_held() -> Result<()> {
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
    // Either outcome of the first delivery ends the wait; the assertions below tell them apart.
    eventually("a delivery to be held or sent", async || {
        let held = endpoint.is("to_jsonb(webhook_endpoints) ->> 'signing_failed_since' IS NOT NULL").await?;
        Ok((held || receiver.received("/in").len() > 1).then_some(()))
    })
    .await?;
    eventually("another attempt to sign", async || {
        let unsigned = metric(&cluster, ProcessKind::Worker, "webhooks_unsigned_total").await;
        Ok((unsigned.is_ok_and(|unsigned| unsigned >= 2.0) || receiver.received("/in").len() > 1).then_some(()))
    })
    .await?;
    let requests = receiver.received("/in");
    assert_eq!(requests.len(), 1, "{:?}", requests.last().map(|request| &request.headers));
    // It does not count as a failure of the endpoint, and the deliveries stay pending.
    assert!(endpoint.is("failing_since IS NULL AND last_failed_at IS NULL").await?);
    let deliveries = endpoint.deliveries().await?;
    for delivery in &deliveries[1..] {
        assert_eq!((&delivery["status"], &delivery["attempt"]), (&"pending".into(), &1.into()), "{delivery}");
    }
    assert_eq!(deliveries.len(), 1 + HELD);
    eventually("the metric of unsigned endpoints", async || {
        let unsigned = metric(&cluster, ProcessKind::Scheduler, "webhooks_endpoints_unsigned").await?;
        Ok((unsigned == 1.0).then_some(()))
    })
    .await?;
    assert_doctor_grade(&cluster, "bad").await?;
    let listed = cluster.ctl(&["webhooks", "list"]).await?;
    assert!(listed["endpoints"][0]["signing_failed_since"].is_string(), "{listed}");

    cluster.worker(0).set_env("ENCRYPTION_KEY", KEY);
    cluster.worker(0).kill9()?;
    cluster.worker(0).restart().await?;
    nothing_is_pending(&merchant).await?;
    endpoint.done(1 + HELD).await?;
    let requests = receiver.received("/in");
    assert_eq!(requests.len(), 1 + HELD);
    for request in &requests {
        assert!(is_signed_with(request, &[&endpoint.secret])?, "{:?}", request.headers);
    }
    assert!(endpoint.is("signing_failed_since IS NULL AND signing_retry_at IS NULL").await?);
    eventually("the metric of unsigned endpoints", async || {
        let unsigned = metric(&cluster, ProcessKind::Scheduler, "webhooks_endpoints_unsigned").await?;
        Ok((unsigned == 0.0).then_some(()))
    })
    .await?;
    assert_doctor_grade(&cluster, "ok").await
}
