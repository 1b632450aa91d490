//! Subscriptions page by page, and what is no subscription of the account.

use anyhow::Result;

use super::{SUBSCRIPTIONS, UNKNOWN, cancel, payer, plan, shown, subscribed, wanted};
use crate::support::{id, ids, is_listed, merchant, not_found, ok, refuses_what_is_no_page, with};

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
    let rows = is_listed(&merchant.api, &list, &made).await?;
    assert_eq!(rows[4], shown(&merchant, &made[4]).await?, "a row is the subscription as it stands");
    refuses_what_is_no_page(&merchant.api, &list, &[&theirs, UNKNOWN]).await
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
