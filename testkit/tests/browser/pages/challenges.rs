//! 3-D Secure: the page redirects to the cardholder's bank and back.

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::browser::Tab;

use super::{assert_receipt, open, pay};
use crate::support::{Provider, Shop, card, cluster};

const CHALLENGED_CARD: &str = "4000002500003155";

/// Waits for the bank's page and clicks a button.
async fn decide(tab: &Tab, decision: &str) -> Result<()> {
    let page = tab.top();
    page.shows("button", "Confirm").await?;
    let gateway = cluster().await?.gateway_url(0);
    ensure!(tab.url().await?.starts_with(&gateway), "{}", tab.url().await?);
    tab.screenshot("bank").await?;
    page.click(&format!("button[value={decision}]")).await
}

#[tokio::test]
async fn a_refused_payment_may_be_tried_again() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let invoice = shop.invoice(json!({"amount": 5600})).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        pay(browser, &tab, card(CHALLENGED_CARD)).await?;
        decide(&tab, "refuse").await?;
        tab.top().shows("[role=alert]", "Nothing was charged").await?;
        tab.wait_until_loaded().await?;
        tab.screenshot("refused").await?;
        pay(browser, &tab, card(CHALLENGED_CARD)).await?;
        decide(&tab, "confirm").await?;
        assert_receipt(&tab, "$56.00").await
    })
    .await?;
    shop.assert_paid(&invoice, 5600).await.map(drop)
}

/// The Back button at the bank leads to a page that links to the bank again.
#[tokio::test]
async fn the_back_button_leads_to_a_link_to_the_bank() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(5800).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        pay(browser, &tab, card(CHALLENGED_CARD)).await?;
        page.shows("button", "Confirm").await?;
        tab.back().await?;
        page.shows("[role=status]", "Your bank asks you to confirm").await?;
        ensure!(page.count("input").await? == 0, "the page shows the card inputs again");
        tab.screenshot("back").await?;
        page.click("[role=status] a").await?;
        decide(&tab, "confirm").await?;
        assert_receipt(&tab, "$58.00").await
    })
    .await?;
    shop.assert_paid(&link, 5800).await.map(drop)
}

/// The page of a payment that awaits confirmation links to the bank, and nothing is charged until then.
#[tokio::test]
async fn the_page_of_a_waiting_payment_links_to_the_bank() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(5700).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        pay(browser, &tab, card(CHALLENGED_CARD)).await?;
        tab.top().shows("button", "Confirm").await?;
        let payment = &shop.payments().await?[0];
        ensure!(payment["status"] == "requires_action", "{payment}");
        let id = payment["id"].as_str().unwrap_or_default();
        tab.open(&format!("{}?payment={id}", crate::support::address(&link)?)).await?;
        tab.top().shows("[role=status]", "bank").await?;
        ensure!(tab.top().count("form").await? == 0, "the page offers a second payment");
        tab.screenshot("waiting").await?;
        tab.top().click("[role=status] a").await?;
        decide(&tab, "confirm").await?;
        assert_receipt(&tab, "$57.00").await
    })
    .await?;
    shop.assert_paid(&link, 5700).await.map(drop)
}
