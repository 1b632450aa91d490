//! Listing recurring invoices, and those of other accounts.

use anyhow::Result;
use serde_json::json;

use super::{RECURRING, UNKNOWN, ask, create_future, current, merchant, update};
use crate::support::{assert_invalid_pages_rejected, assert_listed, ids, invalid, not_found, ok};

#[tokio::test]
async fn recurring_invoices_are_listed_newest_first() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let foreign = create_future(&other_merchant).await?;
    let list = format!("{RECURRING}?");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut made = Vec::new();
    for _ in 0..11 {
        made.insert(0, create_future(&merchant).await?);
    }
    ok(&ask(&merchant, &made[4], "cancel").await?);
    let rows = assert_listed(&merchant.api, &list, &made).await?;
    assert_eq!(rows[4], current(&merchant, &made[4]).await?, "a row is the current object");
    let other = made[0].replace("rinv", "inv");
    assert_invalid_pages_rejected(&merchant.api, &list, &[&foreign, UNKNOWN, &other]).await
}

#[tokio::test]
async fn recurring_invoices_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let foreign = create_future(&other_merchant).await?;
    let before = current(&other_merchant, &foreign).await?;
    for unknown in [foreign.as_str(), UNKNOWN, "nonsense"] {
        not_found(&merchant.api.get(&format!("{RECURRING}/{unknown}")).await?);
        not_found(&update(&merchant, unknown, json!({"name": "Mine"})).await?);
        // Syntax errors in the body come before unknown ids in the path.
        invalid(&update(&merchant, unknown, json!({"name": 1})).await?, "name");
        for action in ["pause", "resume", "cancel"] {
            not_found(&ask(&merchant, unknown, action).await?);
        }
    }
    assert_eq!(current(&other_merchant, &foreign).await?, before);
    Ok(())
}
