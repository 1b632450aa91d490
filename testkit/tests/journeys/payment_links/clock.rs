//! Links and the clock of their account.

use anyhow::{Context, Result};

use super::{LINKS, link, shown, told, wanted};
use crate::support::{created, eventually, id, merchant, with};

#[tokio::test]
async fn an_advance_tells_of_an_expiry_at_its_own_instant() -> Result<()> {
    let merchant = merchant().await?;
    let made = link(&merchant).await?;
    let expires_at = made["expiresAt"].as_str().context("a date")?;
    merchant.advance("1 year").await?;
    assert_eq!(shown(&merchant, &id(&made)?).await?["status"], "expired");
    let expired = [("payment_link.expired".to_owned(), expires_at.to_owned())];
    assert_eq!(merchant.history(&id(&made)?).await?, expired);
    Ok(())
}

#[tokio::test]
async fn by_a_clock_that_is_ahead_links_expire_too() -> Result<()> {
    let merchant = merchant().await?;
    merchant.advance("1 year").await?;
    let soon = merchant.later(&merchant.now().await?, "2 seconds").await?;
    let answer = merchant.api.post(LINKS, with(wanted(500), "expiresAt", soon)).await?;
    let link = id(created(&answer))?;
    eventually("the expiry", async || Ok((told(&merchant, &link).await? == ["payment_link.expired"]).then_some(())))
        .await
}
