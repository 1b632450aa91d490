//! A link's time is up: whoever reads it knows at once, and whoever wants to hear of it is told once.

use anyhow::Result;
use testkit::{Client, Cluster, Kind};

use super::{LINKS, link_id, shown, time_is_up, told};
use crate::support::{Merchant, eventually, merchant, ok, together};

#[tokio::test]
async fn whoever_reads_a_link_knows_that_it_has_expired() -> Result<()> {
    // Nobody is there to note it.
    let cluster = Cluster::builder().api(1).worker(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let link = link_id(&merchant).await?;
    time_is_up(&merchant, &link).await?;
    let read = shown(&merchant, &link).await?;
    assert_eq!(read["status"], "expired");
    assert_eq!(ok(&merchant.api.get(LINKS).await?)["data"][0], read);
    assert!(told(&merchant, &link).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn an_expiry_is_told_once() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let links = together(250, async |_| link_id(&merchant).await).await?;
    let open = link_id(&merchant).await?;
    for link in &links {
        time_is_up(&merchant, link).await?;
    }
    for _ in 0..3 {
        cluster.add(Kind::Scheduler).await?;
    }
    for link in &links {
        eventually("the expiry to be told", async || Ok((!told(&merchant, link).await?.is_empty()).then_some(())))
            .await?;
        let events = merchant.books.events(link).await?;
        assert_eq!(events, [("payment_link.expired".to_owned(), shown(&merchant, link).await?)]);
    }
    let metrics = Client::new(&cluster.metrics_url(Kind::Scheduler, 0))?.get("/metrics").await?;
    let metrics = String::from_utf8(metrics.bytes)?;
    assert!(
        metrics.contains("billing_oldest_due_age_seconds{work=\"payment_links\"} "),
        "how late it is can be watched"
    );
    assert_eq!(shown(&merchant, &open).await?["status"], "open");
    assert!(told(&merchant, &open).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn it_expires_by_the_clock_of_the_account() -> Result<()> {
    let merchant = merchant().await?;
    let link = link_id(&merchant).await?;
    let now = merchant.now().await?;
    merchant.advance_to(&merchant.later(&now, "29 days").await?).await?;
    assert_eq!(shown(&merchant, &link).await?["status"], "open");
    merchant.advance_to(&merchant.later(&now, "31 days").await?).await?;
    assert_eq!(shown(&merchant, &link).await?["status"], "expired");
    assert_eq!(told(&merchant, &link).await?.len(), 1, "once the advance is answered, all has happened");
    Ok(())
}
