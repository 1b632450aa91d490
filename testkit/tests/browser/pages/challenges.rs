//! 3-D Secure: the cardholder's bank asks, and the page goes there and back by itself.

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::browser::Tab;

use super::{is_paid, open, pay};
use crate::support::{Provider, Shop, card, cluster};

const ASKED: &str = "4000002500003155";

/// Waits for the bank's page and presses a button there.
async fn decide(tab: &Tab, decision: &str) -> Result<()> {
    let page = tab.top();
    page.shows("button", "Confirm").await?;
    let gateway = cluster().await?.gateway_url(0);
    ensure!(tab.url().await?.starts_with(&gateway), "{}", tab.url().await?);
    tab.picture("bank").await?;
    page.click(&format!("button[value={decision}]")).await
}

#[tokio::test]
async fn a_payment_is_confirmed_at_the_bank() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(5500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        pay(browser, &tab, card(ASKED)).await?;
        decide(&tab, "confirm").await?;
        is_paid(&tab, "$55.00").await?;
        tab.picture("paid").await
    })
    .await?;
    shop.was_paid(&link, 5500).await.map(drop)
}

#[tokio::test]
async fn an_invoice_is_confirmed_at_the_bank() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let invoice = shop.invoice(json!({"amount": 7100})).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        pay(browser, &tab, card(ASKED)).await?;
        decide(&tab, "confirm").await?;
        is_paid(&tab, "$71.00").await
    })
    .await?;
    shop.was_paid(&invoice, 7100).await.map(drop)
}

#[tokio::test]
async fn a_payment_that_is_refused_may_be_tried_again() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(5600).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        pay(browser, &tab, card(ASKED)).await?;
        decide(&tab, "refuse").await?;
        tab.top().shows("[role=alert]", "Nothing was charged").await?;
        tab.loaded().await?;
        tab.picture("refused").await?;
        pay(browser, &tab, card(ASKED)).await?;
        decide(&tab, "confirm").await?;
        is_paid(&tab, "$56.00").await
    })
    .await?;
    shop.was_paid(&link, 5600).await.map(drop)
}

/// The Back button leads from the bank to a page that says what waits, and on to the bank again.
#[tokio::test]
async fn the_back_button_leads_to_the_bank_again() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(5800).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        pay(browser, &tab, card(ASKED)).await?;
        page.shows("button", "Confirm").await?;
        tab.back().await?;
        page.shows("[role=status]", "Your bank asks you to confirm").await?;
        ensure!(page.count("input").await? == 0, "the card is shown again");
        tab.picture("back").await?;
        page.click("[role=status] a").await?;
        decide(&tab, "confirm").await?;
        is_paid(&tab, "$58.00").await
    })
    .await?;
    shop.was_paid(&link, 5800).await.map(drop)
}

/// Who goes back instead of deciding is not charged, is told that a payment waits, and may go on to the bank from there.
#[tokio::test]
async fn the_bank_is_found_again_from_the_page() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(5700).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        pay(browser, &tab, card(ASKED)).await?;
        tab.top().shows("button", "Confirm").await?;
        let asked = &shop.payments().await?[0];
        ensure!(asked["status"] == "requires_action", "{asked}");
        let id = asked["id"].as_str().unwrap_or_default();
        tab.open(&format!("{}?payment={id}", crate::support::address(&link)?)).await?;
        tab.top().shows("[role=status]", "bank").await?;
        ensure!(tab.top().count("form").await? == 0, "nobody can pay twice meanwhile");
        tab.picture("waiting").await?;
        tab.top().click("[role=status] a").await?;
        decide(&tab, "confirm").await?;
        is_paid(&tab, "$57.00").await
    })
    .await?;
    shop.was_paid(&link, 5700).await.map(drop)
}
