//! Declined cards, and a second attempt.

use anyhow::{Result, ensure};

use super::{BUTTON, assert_receipt, open, pay};
use crate::support::{Provider, Shop, at_each_provider, card, cluster};

at_each_provider! { a_decline_is_explained_and_another_card_pays }

async fn a_decline_is_explained_and_another_card_pays(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(4200).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        for (number, reason) in
            [("4000000000009995", "insufficient funds"), ("4000000000000002", "declined by its bank")]
        {
            pay(browser, &tab, card(number)).await?;
            page.shows("[role=alert]", reason).await?;
            page.shows("[role=alert]", "Nothing was charged").await?;
            // The inputs are kept except the security code, and the message has the focus.
            ensure!(page.focused().await? == "#outcome", "{} has the focus", page.focused().await?);
            ensure!(page.input_value("#card-number").await?.ends_with(&number[12..]));
            ensure!(page.input_value("#card-name").await? == "Ada Lovelace");
            ensure!(page.input_value("#card-cvc").await?.is_empty(), "the security code is still in the input");
            ensure!(page.count("[aria-invalid=true]").await? == 0);
            ensure!(page.text(BUTTON).await? == "Pay $42.00");
        }
        tab.screenshot("declined").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, "$42.00").await?;
        tab.screenshot("paid").await
    })
    .await?;
    shop.assert_paid(&link, 4200).await?;
    let codes: Vec<_> = shop.payments().await?.iter().map(|payment| payment["declineCode"].to_string()).collect();
    assert_eq!(codes, ["null", "\"declined\"", "\"insufficient_funds\""]);
    Ok(())
}

#[tokio::test]
async fn the_security_code_is_cleared_after_a_decline() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(4300).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        pay(browser, &tab, card("4000000000009987")).await?;
        page.shows("#outcome", "declined by its bank").await?;
        ensure!(page.input_value("#card-cvc").await?.is_empty(), "the security code is still in the input");
        ensure!(!page.text("main").await?.contains("lost"), "the page shows a reason that only the merchant may know");
        Ok(())
    })
    .await?;
    let payments = shop.payments().await?;
    assert_eq!(payments[0]["declineCode"], "lost_card", "{payments:?}");
    Ok(())
}

/// The approved part is returned, and the full amount can be paid then.
#[tokio::test]
async fn a_partial_approval_is_returned() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(4400).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        pay(browser, &tab, card("4000000000000010")).await?;
        tab.top().shows("[role=alert]", "approved only part of the amount").await?;
        // The page offers payment again by itself once the part is returned.
        tab.top().shows("[role=alert]", "That part was returned").await?;
        tab.wait_until_loaded().await?;
        tab.screenshot("partial").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, "$44.00").await
    })
    .await?;
    assert_eq!(shop.current(&link).await?["status"], "paid");
    let statuses: Vec<_> = shop.payments().await?.iter().map(|payment| payment["status"].clone()).collect();
    assert_eq!(statuses, ["pending_settlement", "cancelled"]);
    Ok(())
}

#[tokio::test]
async fn an_unreachable_card_processor_can_be_tried_again() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(4500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        tab.block_urls(&[&cluster().await?.gateway_url(0)]).await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        let page = tab.top();
        page.shows("#card-error", "could not be reached").await?;
        page.shows("#card-error", "Nothing was charged").await?;
        ensure!(page.text(BUTTON).await? == "Pay $45.00", "the button is not offered again");
        tab.screenshot("unreachable").await?;
        tab.block_urls(&[]).await?;
        // The inputs are kept.
        page.click(BUTTON).await?;
        assert_receipt(&tab, "$45.00").await
    })
    .await?;
    shop.assert_paid(&link, 4500).await.map(drop)
}
