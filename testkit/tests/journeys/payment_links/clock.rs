//! Links and the test clock of their account.

use anyhow::{Context, Result};

use super::{LINKS, current, event_types, link, minimal};
use crate::support::{created, eventually, id, merchant, with};

#[tokio::test]
async fn advances_date_expiry_events_at_their_time() -> Result<()> {
    let merchant = merchant().await?;
    let made = link(&merchant).await?;
    let expires_at = made["expiresAt"].as_str().context("a date")?;
    merchant.advance("1 year").await?;
    assert_eq!(current(&merchant, &id(&made)?).await?["status"], "expired");
    let expired = [("payment_link.expired".to_owned(), expires_at.to_owned())];
    assert_eq!(merchant.event_history(&id(&made)?).await?, expired);
    Ok(())
}

#[tokio::test]
async fn links_expire_by_a_clock_in_the_future() -> Result<()> {
    let merchant = merchant().await?;
    merchant.advance("1 year").await?;
    let soon = merchant.later(&merchant.now().await?, "2 seconds").await?;
    let response = merchant.api.post(LINKS, with(minimal(500), "expiresAt", soon)).await?;
    let link = id(created(&response))?;
    eventually("the expiry", async || {
        Ok((event_types(&merchant, &link).await? == ["payment_link.expired"]).then_some(()))
    })
    .await
}
