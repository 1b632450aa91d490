//! Subscriptions page by page, and what is no subscription of the account.

use anyhow::Result;

use super::{SUBSCRIPTIONS, UNKNOWN, cancel, payer, plan, shown, subscribed, wanted};
use crate::support::{id, ids, invalid, merchant, not_found, ok, walk, with};

#[tokio::test]
async fn subscriptions_are_listed_newest_first() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let sent = with(wanted(&payer(&merchant).await?, &plan(&merchant, "month").await?), "startAt", "2099-01-01");
    let theirs = id(&subscribed(&stranger, wanted(&payer(&stranger).await?, &plan(&stranger, "day").await?)).await?)?;
    let list = format!("{SUBSCRIPTIONS}?");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut made = Vec::new();
    for _ in 0..11 {
        made.insert(0, id(&subscribed(&merchant, sent.clone()).await?)?);
    }
    ok(&cancel(&merchant, &made[4]).await?);
    for limit in [1, 2, 5, 11, 100] {
        assert_eq!(walk(&merchant.api, &list, limit).await?, made, "pages of {limit}");
    }
    let page = merchant.api.get(&list).await?;
    assert_eq!(ids(&page), made[..10], "ten where no limit is given");
    assert_eq!(page.body["data"][4], shown(&merchant, &made[4]).await?, "a row is the subscription as it stands");
    for cursor in [theirs.as_str(), UNKNOWN, "nonsense", ""] {
        invalid(&merchant.api.get(&format!("{list}startingAfter={cursor}")).await?, "startingAfter");
    }
    for limit in ["0", "101", "abc"] {
        invalid(&merchant.api.get(&format!("{list}limit={limit}")).await?, "limit");
    }
    Ok(())
}

#[tokio::test]
async fn another_accounts_subscription_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let customer = payer(&stranger).await?;
    let theirs = id(&subscribed(&stranger, wanted(&customer, &plan(&stranger, "month").await?)).await?)?;
    for unknown in [&theirs, UNKNOWN, "nonsense", &customer] {
        not_found(&merchant.api.get(&format!("{SUBSCRIPTIONS}/{unknown}")).await?);
        not_found(&cancel(&merchant, unknown).await?);
    }
    assert_eq!(shown(&stranger, &theirs).await?["status"], "active");
    Ok(())
}
