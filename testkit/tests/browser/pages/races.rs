//! Concurrent payments of one link.

use anyhow::Result;

use super::{BUTTON, assert_receipt, open};
use crate::support::{Provider, Shop, card};

#[tokio::test]
async fn two_tabs_make_one_payment() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(3300).await?;
    shop.visit(async |browser| {
        let (left, right) = (open(browser, &link).await?, open(browser, &link).await?);
        for tab in [&left, &right] {
            card("4242424242424242").enter(browser, &tab.top()).await?;
        }
        let (first, second) = (left.top(), right.top());
        tokio::try_join!(first.click(BUTTON), second.click(BUTTON))?;
        // The second tab shows the payment of the first, at the latest when its page polls the status.
        tokio::try_join!(first.shows("[role=status]", "Paid on"), second.shows("[role=status]", "Paid on"))?;
        left.screenshot("left").await?;
        right.screenshot("right").await
    })
    .await?;
    shop.assert_paid(&link, 3300).await?;
    assert_eq!(shop.payments().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn repeated_clicks_make_one_payment() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(3400).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        card("4242424242424242").enter(browser, &page).await?;
        page.value(&format!("for (let i = 0; i < 3; i += 1) document.querySelector('{BUTTON}').click()")).await?;
        assert_receipt(&tab, "$34.00").await
    })
    .await?;
    shop.assert_paid(&link, 3400).await?;
    assert_eq!(shop.payments().await?.len(), 1);
    Ok(())
}
