//! Listing subscriptions, and subscriptions of other accounts.

use anyhow::Result;

use super::{SUBSCRIPTIONS, UNKNOWN, cancel, current, customer_with_card, plan, subscribe, subscription_body};
use crate::support::{assert_invalid_pages_rejected, assert_listed, id, ids, merchant, not_found, ok, with};

#[tokio::test]
async fn subscriptions_are_listed_newest_first() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let sent = with(
        subscription_body(&customer_with_card(&merchant).await?, &plan(&merchant, "month").await?),
        "startAt",
        "2099-01-01",
    );
    let foreign = id(&subscribe(
        &other_merchant,
        subscription_body(&customer_with_card(&other_merchant).await?, &plan(&other_merchant, "day").await?),
    )
    .await?)?;
    let list = format!("{SUBSCRIPTIONS}?");
    assert!(ids(&merchant.api.get(&list).await?).is_empty());
    let mut made = Vec::new();
    for _ in 0..11 {
        made.insert(0, id(&subscribe(&merchant, sent.clone()).await?)?);
    }
    ok(&cancel(&merchant, &made[4]).await?);
    let rows = assert_listed(&merchant.api, &list, &made).await?;
    assert_eq!(rows[4], current(&merchant, &made[4]).await?, "a row is the current subscription");
    assert_invalid_pages_rejected(&merchant.api, &list, &[&foreign, UNKNOWN]).await
}

#[tokio::test]
async fn subscriptions_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let customer = customer_with_card(&other_merchant).await?;
    let foreign =
        id(&subscribe(&other_merchant, subscription_body(&customer, &plan(&other_merchant, "month").await?)).await?)?;
    for unknown in [&foreign, UNKNOWN, "nonsense", &customer] {
        not_found(&merchant.api.get(&format!("{SUBSCRIPTIONS}/{unknown}")).await?);
        not_found(&cancel(&merchant, unknown).await?);
    }
    assert_eq!(current(&other_merchant, &foreign).await?["status"], "active");
    Ok(())
}
