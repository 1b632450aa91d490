//! Pages that cannot be paid.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::browser::Tab;

use super::{BUTTON, open};
use crate::support::{Provider, Shop, card};

/// Fails unless the page shows this message and no control.
async fn assert_message_only(tab: &Tab, message: &str) -> Result<()> {
    let page = tab.top();
    page.shows("[role=status]", message).await?;
    ensure!(page.count("form, input, button, script").await? == 0, "the page with {message:?} has a control");
    Ok(())
}

fn path(list: &str, object: &Value, action: &str) -> Result<String> {
    Ok(format!("/v1/{list}/{}/{action}", object["id"].as_str().context("an id")?))
}

#[tokio::test]
async fn a_cancelled_link_or_a_voided_invoice() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let (link, invoice) = (shop.link(500).await?, shop.invoice(json!({"amount": 500})).await?);
    shop.visit(async |browser| {
        for (object, list, action, message) in
            [(&link, "payment_links", "cancel", "cancelled"), (&invoice, "invoices", "void", "voided")]
        {
            // A page that is already open shows the message when the button is clicked.
            let early = open(browser, object).await?;
            card("4242424242424242").enter(browser, &early.top()).await?;
            shop.post(&path(list, object, action)?).await?;
            let late = open(browser, object).await?;
            assert_message_only(&late, message).await?;
            late.screenshot(message).await?;
            early.top().click(BUTTON).await?;
            assert_message_only(&early, message).await?;
        }
        Ok(())
    })
    .await?;
    assert!(shop.payments().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn an_unknown_url() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        browser.expect_console_error("404");
        let tab = browser.tab().await?;
        tab.open(&format!("{}x", crate::support::address(&link)?)).await?;
        tab.top().shows("main", "Nothing to pay here").await?;
        tab.screenshot("unknown").await
    })
    .await
}

/// Without scripts the page asks for JavaScript, and neither its button nor the Enter key sends a card.
#[tokio::test]
async fn a_browser_without_scripts() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(500).await?;
    let card = card("4242424242424242");
    shop.visit(async |browser| {
        card.register(browser);
        let mut tab = browser.tab().await?;
        tab.disable_scripts().await?;
        tab.open(crate::support::address(&link)?).await?;
        let page = tab.top();
        page.shows("main", "must run JavaScript").await?;
        tab.screenshot("open").await?;
        for (input, text) in [("#card-number", card.number), ("#card-cvc", card.code)] {
            page.enter(input, text).await?;
        }
        page.wait(&format!("document.querySelector('{BUTTON}').disabled")).await?;
        tab.press("Enter").await?;
        page.shows("main", "must run JavaScript").await?;
        ensure!(shop.card_recipients(browser, card.number).is_empty());
        Ok(())
    })
    .await?;
    assert!(shop.payments().await?.is_empty());
    Ok(())
}
