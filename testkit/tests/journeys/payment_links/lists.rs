//! Links page by page, and what is no link of the account.

use anyhow::Result;

use super::{LINKS, UNKNOWN, cancel, link_id, shown};
use crate::support::{ids, is_listed, merchant, not_found, ok, refuses_what_is_no_page};

#[tokio::test]
async fn links_are_listed_newest_first() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let theirs = link_id(&stranger).await?;
    let list = format!("{LINKS}?");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut made = Vec::new();
    for _ in 0..11 {
        made.insert(0, link_id(&merchant).await?);
    }
    ok(&cancel(&merchant, &made[4]).await?);
    let rows = is_listed(&merchant.api, &list, &made).await?;
    assert_eq!(rows[4], shown(&merchant, &made[4]).await?, "a row is the link as it stands");
    refuses_what_is_no_page(&merchant.api, &list, &[&theirs, UNKNOWN]).await
}

#[tokio::test]
async fn another_accounts_link_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let theirs = link_id(&stranger).await?;
    for unknown in [theirs.as_str(), UNKNOWN, "nonsense"] {
        not_found(&merchant.api.get(&format!("{LINKS}/{unknown}")).await?);
        not_found(&cancel(&merchant, unknown).await?);
    }
    assert_eq!(shown(&stranger, &theirs).await?["status"], "open");
    Ok(())
}
