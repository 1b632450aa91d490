//! Accounts at Stripe: pages and card fields load Stripe's script and its card field, here those of a double.

use anyhow::{Result, ensure};
use testkit::browser::{Browser, Frame, Secret, Tab};

use crate::elements::{checkout, script_url, site_of};
use crate::pages::{BUTTON, assert_receipt, open};
use crate::support::{Provider, Shop, assert_accessible, stripe};

const APPROVED: &str = "4242424242424242";
const DECLINED: &str = "4000000000009995";
const CHALLENGED: &str = "4000002500003155";

/// Enters a card into Stripe's field on a page of ours.
async fn enter(browser: &Browser, page: &Frame<'_>, number: &str) -> Result<()> {
    browser.add_secret(Secret::CardNumber(number.to_owned()));
    page.within("#card-element iframe").enter("#number", number).await
}

async fn pay(browser: &Browser, tab: &Tab, number: &str) -> Result<()> {
    enter(browser, &tab.top(), number).await?;
    tab.top().click(BUTTON).await
}

#[tokio::test]
async fn a_link_is_paid_after_a_decline() -> Result<()> {
    let shop = Shop::new(Provider::Stripe).await?;
    let link = shop.link(4200).await?;
    shop.visit(async |browser| {
        browser.expect_console_error("402 (Payment Required)");
        let tab = open(browser, &link).await?;
        tab.screenshot("stripe").await?;
        assert_accessible(&tab, &tab.top(), "a page with Stripe's field").await?;
        pay(browser, &tab, "4000000000000001").await?;
        tab.top().shows("#card-error", "incorrect").await?;
        pay(browser, &tab, DECLINED).await?;
        tab.top().shows("[role=alert]", "insufficient funds").await?;
        pay(browser, &tab, APPROVED).await?;
        assert_receipt(&tab, "$42.00").await?;
        let sent = shop.card_recipients(browser, APPROVED);
        ensure!(sent == shop.allowed_card_recipients().await?, "{sent:?}");
        Ok(())
    })
    .await?;
    shop.assert_paid(&link, 4200).await.map(drop)
}

#[tokio::test]
async fn a_challenge_leads_to_stripe_and_back() -> Result<()> {
    let shop = Shop::new(Provider::Stripe).await?;
    let link = shop.link(5500).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        for (answer, text) in [("fail", "Nothing was charged"), ("pass", "")] {
            pay(browser, &tab, CHALLENGED).await?;
            tab.top().shows("button", "Complete").await?;
            ensure!(tab.url().await?.starts_with(stripe()?.url()), "{}", tab.url().await?);
            tab.top().click(&format!("button[value={answer}]")).await?;
            if !text.is_empty() {
                tab.top().shows("[role=alert]", text).await?;
                tab.wait_until_loaded().await?;
            }
        }
        assert_receipt(&tab, "$55.00").await
    })
    .await?;
    shop.assert_paid(&link, 5500).await.map(drop)
}

#[tokio::test]
async fn a_card_in_a_merchants_page_is_charged() -> Result<()> {
    let shop = Shop::new(Provider::Stripe).await?;
    let site = site_of(&shop).await?.page("/", &checkout(&script_url().await?, &shop.account.publishable_key));
    let mut token = String::new();
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.localhost_origin()).await?;
        enter(browser, &tab.frame("#card iframe"), APPROVED).await?;
        tab.top().click("#buy").await?;
        tab.top().shows("#result", "mtok_").await?;
        token = tab.top().text("#result").await?;
        Ok(())
    })
    .await?;
    let body = serde_json::json!({"amount": 2700, "currency": "USD", "paymentToken": token});
    let payment = shop.create("/v1/payments", body).await?;
    ensure!(payment["status"] == "pending_settlement" && payment["card"]["last4"] == "4242", "{payment}");
    Ok(())
}

/// An ad blocker or an outage.
#[tokio::test]
async fn a_page_says_when_stripe_cannot_be_reached() -> Result<()> {
    let shop = Shop::new(Provider::Stripe).await?;
    let link = shop.link(300).await?;
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.block_urls(&[stripe()?.url()]).await?;
        tab.open(crate::support::address(&link)?).await?;
        tab.top().shows("#card-error", "could not be reached").await?;
        tab.top().click(BUTTON).await?;
        tab.top().shows("#card-error", "could not be reached").await
    })
    .await
}
