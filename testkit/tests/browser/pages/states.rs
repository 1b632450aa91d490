//! Pages on which nothing can be paid.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::browser::Tab;

use super::{BUTTON, open};
use crate::support::{Provider, Shop, card};

/// Nothing but words.
async fn is_plain(tab: &Tab, says: &str) -> Result<()> {
    let page = tab.top();
    page.shows("[role=status]", says).await?;
    ensure!(page.count("form, input, button, script").await? == 0, "{says}, and something to press");
    Ok(())
}

fn path(list: &str, object: &Value, action: &str) -> Result<String> {
    Ok(format!("/v1/{list}/{}/{action}", object["id"].as_str().context("an id")?))
}

#[tokio::test]
async fn a_link_that_was_cancelled_or_an_invoice_that_was_voided() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let (link, invoice) = (shop.link(500).await?, shop.invoice(json!({"amount": 500})).await?);
    shop.visit(async |browser| {
        for (object, list, action, says) in
            [(&link, "payment_links", "cancel", "cancelled"), (&invoice, "invoices", "void", "voided")]
        {
            // Whoever has the page open, with a card in it, learns it when the button is pressed.
            let early = open(browser, object).await?;
            card("4242424242424242").enter(browser, &early.top()).await?;
            shop.act(&path(list, object, action)?).await?;
            let late = open(browser, object).await?;
            is_plain(&late, says).await?;
            late.picture(says).await?;
            early.top().click(BUTTON).await?;
            is_plain(&early, says).await?;
        }
        Ok(())
    })
    .await?;
    assert!(shop.payments().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_link_whose_time_is_up() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        let early = open(browser, &link).await?;
        card("4242424242424242").enter(browser, &early.top()).await?;
        let to = shop.get("/v1/test_clock").await?["now"].as_str().context("a time")?[..4].parse::<u32>()? + 1;
        shop.make("/v1/test_clock/advance", json!({"to": format!("{to}-12-31T00:00:00Z")})).await?;
        let late = open(browser, &link).await?;
        is_plain(&late, "expired").await?;
        late.picture("expired").await?;
        early.top().click(BUTTON).await?;
        is_plain(&early, "expired").await
    })
    .await?;
    assert_eq!(shop.again(&link).await?["status"], "expired");
    assert!(shop.payments().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn an_address_that_is_none() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        browser.expect_complaint("404");
        let tab = browser.tab().await?;
        tab.open(&format!("{}x", crate::support::address(&link)?)).await?;
        tab.top().shows("main", "Nothing to pay here").await?;
        tab.picture("unknown").await
    })
    .await
}

/// Without scripts the page says what to do, and a card that is typed all the same goes nowhere.
#[tokio::test]
async fn a_browser_without_scripts() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(500).await?;
    let card = card("4242424242424242");
    shop.visit(async |browser| {
        // The page answers 422 to a form without a token.
        browser.expect_complaint("422");
        card.keep(browser);
        let mut tab = browser.tab().await?;
        tab.stop_scripts().await?;
        tab.open(crate::support::address(&link)?).await?;
        let page = tab.top();
        page.shows("main", "must run JavaScript").await?;
        tab.picture("open").await?;
        for (input, text) in [("#card-number", card.number), ("#card-cvc", card.code)] {
            page.enter(input, text).await?;
        }
        page.click(BUTTON).await?;
        page.shows("[role=alert]", "No card was sent").await?;
        ensure!(shop.told(browser, card.number).is_empty());
        Ok(())
    })
    .await?;
    assert!(shop.payments().await?.is_empty());
    Ok(())
}
