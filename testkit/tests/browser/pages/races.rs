//! Two who pay at once.

use anyhow::{Result, ensure};

use super::{BUTTON, is_paid, open, pay};
use crate::support::{Provider, Shop, at_each_provider, card};

at_each_provider! { two_tabs_make_one_payment who_presses_twice_pays_once who_goes_back_finds_it_paid }

async fn two_tabs_make_one_payment(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(3300).await?;
    shop.visit(async |browser| {
        let (left, right) = (open(browser, &link).await?, open(browser, &link).await?);
        for tab in [&left, &right] {
            card("4242424242424242").enter(browser, &tab.top()).await?;
        }
        let (one, other) = (left.top(), right.top());
        tokio::try_join!(one.click(BUTTON), other.click(BUTTON))?;
        // Who came second sees how the first one stands, at the latest when the page looks again by itself.
        tokio::try_join!(one.shows("[role=status]", "Paid on"), other.shows("[role=status]", "Paid on"))?;
        left.picture("left").await?;
        right.picture("right").await
    })
    .await?;
    shop.was_paid(&link, 3300).await?;
    assert_eq!(shop.payments().await?.len(), 1);
    Ok(())
}

async fn who_presses_twice_pays_once(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(3400).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        card("4242424242424242").enter(browser, &page).await?;
        page.value(&format!("for (let i = 0; i < 3; i += 1) document.querySelector('{BUTTON}').click()")).await?;
        is_paid(&tab, "$34.00").await
    })
    .await?;
    shop.was_paid(&link, 3400).await?;
    assert_eq!(shop.payments().await?.len(), 1);
    Ok(())
}

/// Nor does the button that goes back show the card that has paid: the next one at the machine may be a stranger.
async fn who_goes_back_finds_it_paid(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(3500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        pay(browser, &tab, card("4242424242424242")).await?;
        is_paid(&tab, "$35.00").await?;
        tab.back().await?;
        page.wait("!location.search").await?;
        page.shows("[role=status]", "Paid on").await?;
        ensure!(page.count("input").await? == 0, "the page as it was before is shown again");
        Ok(())
    })
    .await?;
    shop.was_paid(&link, 3500).await.map(drop)
}
