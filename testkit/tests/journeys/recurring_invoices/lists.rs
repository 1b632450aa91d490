//! Recurring invoices page by page, and what is none of the account.

use anyhow::Result;
use serde_json::json;

use super::{RECURRING, UNKNOWN, ask, merchant, shown, sleeper, update};
use crate::support::{id, ids, invalid, not_found, ok, walk};

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
    for limit in [1, 2, 5, 11, 100] {
        assert_eq!(walk(&merchant.api, &list, limit).await?, made, "pages of {limit}");
    }
    let page = merchant.api.get(&list).await?;
    assert_eq!(ids(&page), made[..10], "ten where no limit is given");
    assert_eq!(page.body["data"][4], shown(&merchant, &made[4]).await?, "a row is the object as it stands");
    for cursor in [theirs.as_str(), UNKNOWN, "nonsense", "", &id(&page.body["data"][0])?.replace("rinv", "inv")] {
        invalid(&merchant.api.get(&format!("{list}startingAfter={cursor}")).await?, "startingAfter");
    }
    for limit in ["0", "101", "abc"] {
        invalid(&merchant.api.get(&format!("{list}limit={limit}")).await?, "limit");
    }
    Ok(())
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
