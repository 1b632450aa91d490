//! Payment pages for invoices and links.

mod appearance;
mod challenges;
mod declines;
mod invoices;
mod keyboard;
mod languages;
mod modifiers;
mod payments;
mod races;
mod states;
mod validation;

use anyhow::{Result, ensure};
use serde_json::Value;
use testkit::browser::{Browser, Tab};

use crate::support::{Card, address};

pub(crate) const BUTTON: &str = "button[type=submit]";

/// Opens the page of an invoice or link in a new tab.
pub(crate) async fn open(browser: &Browser, object: &Value) -> Result<Tab> {
    let tab = browser.tab().await?;
    tab.open(address(object)?).await?;
    Ok(tab)
}

/// Enters a card and presses the button.
pub(crate) async fn pay(browser: &Browser, tab: &Tab, card: Card) -> Result<()> {
    let page = tab.top();
    card.enter(browser, &page).await?;
    page.click(BUTTON).await
}

/// Fails unless the page shows a receipt and no form.
pub(crate) async fn assert_receipt(tab: &Tab, total: &str) -> Result<()> {
    let page = tab.top();
    page.shows("[role=status]", "Paid on").await?;
    page.shows("#receipt", total).await?;
    ensure!(page.count("form").await? == 0, "a paid page has a form");
    ensure!(tab.url().await?.contains("?payment=pay_"), "{}", tab.url().await?);
    let storage = page.value("document.cookie + JSON.stringify([localStorage, sessionStorage])").await?;
    ensure!(storage == "[{},{}]", "the browser stores {storage}");
    Ok(())
}
