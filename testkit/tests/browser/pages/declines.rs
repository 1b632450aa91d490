//! A card that is declined, and another one.

use anyhow::{Result, ensure};

use super::{BUTTON, is_paid, open, pay};
use crate::support::{Provider, Shop, at_each_provider, card, cluster};

at_each_provider! { a_decline_is_explained_and_another_card_pays }

async fn a_decline_is_explained_and_another_card_pays(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(4200).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        for (number, why) in [("4000000000009995", "not enough money"), ("4000000000000002", "declined by its bank")] {
            pay(browser, &tab, card(number)).await?;
            page.shows("[role=alert]", why).await?;
            page.shows("[role=alert]", "Nothing was charged").await?;
            // What was entered stays, but for the security code, and the keys are at the message.
            ensure!(page.focused().await? == "#outcome", "{} has the keys", page.focused().await?);
            ensure!(page.entered("#card-number").await?.ends_with(&number[12..]));
            ensure!(page.entered("#card-name").await? == "Ada Lovelace");
            ensure!(page.entered("#card-cvc").await?.is_empty(), "the security code is kept");
            ensure!(page.count("[aria-invalid=true]").await? == 0);
            ensure!(page.text(BUTTON).await? == "Pay $42.00");
        }
        tab.picture("declined").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        is_paid(&tab, "$42.00").await?;
        tab.picture("paid").await
    })
    .await?;
    shop.was_paid(&link, 4200).await?;
    let codes: Vec<_> = shop.payments().await?.iter().map(|payment| payment["declineCode"].to_string()).collect();
    assert_eq!(codes, ["null", "\"declined\"", "\"insufficient_funds\""]);
    Ok(())
}

#[tokio::test]
async fn a_page_keeps_no_security_code_after_a_decline() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(4300).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        pay(browser, &tab, card("4000000000009987")).await?;
        page.shows("#outcome", "declined by its bank").await?;
        ensure!(page.entered("#card-cvc").await?.is_empty(), "the security code is kept");
        ensure!(!page.text("main").await?.contains("lost"), "a cardholder is told what is for the merchant");
        Ok(())
    })
    .await?;
    let payments = shop.payments().await?;
    assert_eq!(payments[0]["declineCode"], "lost_card", "{payments:?}");
    Ok(())
}

/// Half of it is given back, and the whole can be paid then.
#[tokio::test]
async fn a_card_that_is_good_for_half_pays_nothing() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(4400).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        pay(browser, &tab, card("4000000000000010")).await?;
        tab.top().shows("[role=alert]", "approved only a part of the amount").await?;
        // While the part is on its way back nobody can pay; then the page offers it again by itself.
        tab.top().shows("[role=alert]", "That part was given back").await?;
        tab.loaded().await?;
        tab.picture("part").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        is_paid(&tab, "$44.00").await
    })
    .await?;
    assert_eq!(shop.again(&link).await?["status"], "paid");
    let statuses: Vec<_> = shop.payments().await?.iter().map(|payment| payment["status"].clone()).collect();
    assert_eq!(statuses, ["pending_settlement", "cancelled"]);
    Ok(())
}

#[tokio::test]
async fn a_card_processor_that_cannot_be_reached_is_tried_again() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(4500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        tab.cut_off(&[&cluster().await?.gateway_url(0)]).await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        let page = tab.top();
        page.shows("#card-error", "could not be reached").await?;
        page.shows("#card-error", "Nothing was charged").await?;
        ensure!(page.text(BUTTON).await? == "Pay $45.00", "the button is offered again");
        tab.picture("unreachable").await?;
        tab.cut_off(&[]).await?;
        // What was entered still stands there.
        page.click(BUTTON).await?;
        is_paid(&tab, "$45.00").await
    })
    .await?;
    shop.was_paid(&link, 4500).await.map(drop)
}
