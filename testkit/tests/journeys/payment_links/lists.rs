//! Listing links, and links of other accounts.

use anyhow::Result;

use super::{LINKS, UNKNOWN, cancel, current, link_id};
use crate::support::{assert_invalid_pages_rejected, assert_listed, ids, merchant, not_found, ok};

#[tokio::test]
async fn links_are_listed_newest_first() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let foreign = link_id(&other_merchant).await?;
    let list = format!("{LINKS}?");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut made = Vec::new();
    for _ in 0..11 {
        made.insert(0, link_id(&merchant).await?);
    }
    ok(&cancel(&merchant, &made[4]).await?);
    let rows = assert_listed(&merchant.api, &list, &made).await?;
    assert_eq!(rows[4], current(&merchant, &made[4]).await?, "a row is the current link");
    assert_invalid_pages_rejected(&merchant.api, &list, &[&foreign, UNKNOWN]).await
}

#[tokio::test]
async fn links_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let foreign = link_id(&other_merchant).await?;
    for unknown in [foreign.as_str(), UNKNOWN, "nonsense"] {
        not_found(&merchant.api.get(&format!("{LINKS}/{unknown}")).await?);
        not_found(&cancel(&merchant, unknown).await?);
    }
    assert_eq!(current(&other_merchant, &foreign).await?["status"], "open");
    Ok(())
}
