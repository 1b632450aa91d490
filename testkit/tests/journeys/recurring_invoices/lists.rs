//! Recurring invoices page by page, and what is none of the account.

use anyhow::Result;
use serde_json::json;

use super::{RECURRING, UNKNOWN, ask, merchant, shown, sleeper, update};
use crate::support::{ids, invalid, is_listed, not_found, ok, refuses_what_is_no_page};

#[tokio::test]
async fn they_are_listed_newest_first() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let theirs = sleeper(&stranger).await?;
    let list = format!("{RECURRING}?");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut made = Vec::new();
    for _ in 0..11 {
        made.insert(0, sleeper(&merchant).await?);
    }
    ok(&ask(&merchant, &made[4], "cancel").await?);
    let rows = is_listed(&merchant.api, &list, &made).await?;
    assert_eq!(rows[4], shown(&merchant, &made[4]).await?, "a row is the object as it stands");
    let other = made[0].replace("rinv", "inv");
    refuses_what_is_no_page(&merchant.api, &list, &[&theirs, UNKNOWN, &other]).await
}

#[tokio::test]
async fn another_accounts_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let theirs = sleeper(&stranger).await?;
    let before = shown(&stranger, &theirs).await?;
    for unknown in [theirs.as_str(), UNKNOWN, "nonsense"] {
        not_found(&merchant.api.get(&format!("{RECURRING}/{unknown}")).await?);
        not_found(&update(&merchant, unknown, json!({"name": "Mine"})).await?);
        // What the body says wrong comes before whom the path names.
        invalid(&update(&merchant, unknown, json!({"name": 1})).await?, "name");
        for what in ["pause", "resume", "cancel"] {
            not_found(&ask(&merchant, unknown, what).await?);
        }
    }
    assert_eq!(shown(&stranger, &theirs).await?, before);
    Ok(())
}
