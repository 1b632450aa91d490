//! Payment pages, as cardholders use them.

mod challenges;
mod declines;
mod faults;
mod invoices;
mod keyboard;
mod looks;
mod modifiers;
mod paying;
mod races;
mod states;

use anyhow::{Result, ensure};
use serde_json::Value;
use testkit::browser::{Browser, Tab};

use crate::support::{Card, address};

pub(crate) const BUTTON: &str = "button[type=submit]";

/// The page of an invoice or link, in a new tab.
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

/// The page says that it is paid, shows a receipt, and offers no further payment.
async fn is_paid(tab: &Tab, total: &str) -> Result<()> {
    let page = tab.top();
    page.shows("[role=status]", "Paid on").await?;
    page.shows("#receipt", total).await?;
    ensure!(page.count("form").await? == 0, "a form on a page that is paid");
    ensure!(tab.url().await?.contains("?payment=pay_"), "{}", tab.url().await?);
    let kept = page.value("document.cookie + JSON.stringify([localStorage, sessionStorage])").await?;
    ensure!(kept == "[{},{}]", "the browser keeps {kept}");
    Ok(())
}
