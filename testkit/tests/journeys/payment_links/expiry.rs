//! Expiry of links: it shows on the next read, and its event is written once.

use anyhow::Result;
use testkit::{Client, Cluster, ProcessKind};

use super::{LINKS, current, event_types, expire, link_id};
use crate::support::{Merchant, cluster_without_scheduler, concurrently, eventually, merchant, ok};

#[tokio::test]
async fn expired_links_read_as_expired_without_a_scheduler() -> Result<()> {
    // Without a scheduler, the expiry is not stored.
    let merchant = Merchant::new(cluster_without_scheduler().await?).await?;
    let link = link_id(&merchant).await?;
    expire(&merchant, &link).await?;
    let expired = current(&merchant, &link).await?;
    assert_eq!(expired["status"], "expired");
    assert_eq!(ok(&merchant.api.get(LINKS).await?)["data"][0], expired);
    assert!(event_types(&merchant, &link).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn expiry_events_are_written_once() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    // More than one run marks.
    let links = concurrently(120, async |_| link_id(&merchant).await).await?;
    let open = link_id(&merchant).await?;
    for link in &links {
        expire(&merchant, link).await?;
    }
    for _ in 0..3 {
        cluster.add(ProcessKind::Scheduler).await?;
    }
    for link in &links {
        eventually("the expiry event", async || Ok((!event_types(&merchant, link).await?.is_empty()).then_some(())))
            .await?;
        let events = merchant.books.events(link).await?;
        assert_eq!(events, [("payment_link.expired".to_owned(), current(&merchant, link).await?)]);
    }
    let metrics = Client::new(&cluster.metrics_url(ProcessKind::Scheduler, 0))?.get("/metrics").await?;
    let metrics = String::from_utf8(metrics.bytes)?;
    assert!(metrics.contains("billing_oldest_due_age_seconds{work=\"payment_links\"} "), "the expiry lag is exported");
    assert_eq!(current(&merchant, &open).await?["status"], "open");
    assert!(event_types(&merchant, &open).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn links_expire_by_the_account_clock() -> Result<()> {
    let merchant = merchant().await?;
    let link = link_id(&merchant).await?;
    let now = merchant.now().await?;
    merchant.advance_to(&merchant.later(&now, "29 days").await?).await?;
    assert_eq!(current(&merchant, &link).await?["status"], "open");
    merchant.advance_to(&merchant.later(&now, "31 days").await?).await?;
    assert_eq!(current(&merchant, &link).await?["status"], "expired");
    assert_eq!(event_types(&merchant, &link).await?.len(), 1, "the advance returns after all due work has run");
    Ok(())
}
