//! The example shops: an order is charged once, and its outcome is shown.

use anyhow::{Context, Result, ensure};
use testkit::browser::{Browser, Tab};

use crate::support::{Example, Provider, Shop, card};

async fn open(browser: &Browser, example: &Example) -> Result<Tab> {
    let tab = browser.tab().await?;
    tab.open(&example.url).await?;
    Ok(tab)
}

async fn pay(browser: &Browser, tab: &Tab, number: &'static str) -> Result<()> {
    card(number).enter(browser, &tab.frame("#card iframe")).await?;
    tab.top().click("button").await
}

/// The number of payments that charged a card.
async fn charge_count(shop: &Shop) -> Result<usize> {
    let payments = shop.payments().await?;
    Ok(payments.iter().filter(|payment| payment["status"] == "pending_settlement").count())
}

/// The response to the page is lost; the user presses Pay again, reloads the page, and presses the Back button.
#[tokio::test]
async fn an_order_is_charged_once_when_the_response_is_lost() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    for (number, (name, example)) in Example::all(&shop).await?.iter().enumerate() {
        shop.visit(async |browser| {
            browser.expect_console_error("ERR_CONNECTION_RESET");
            let tab = open(browser, example).await?;
            let page = tab.top();
            tab.drop_responses(Some("*/pay")).await?;
            for _ in 0..2 {
                pay(browser, &tab, "4242424242424242").await?;
                page.shows("#message", "press Pay again").await?;
            }
            tab.screenshot(&format!("{name}-lost")).await?;
            tab.drop_responses(None).await?;
            page.click("button").await?;
            for _ in 0..2 {
                page.shows("h1", "Your order").await?;
                page.shows("#message", "It is paid").await?;
                tab.open(&example.url).await?;
            }
            tab.back().await?;
            page.shows("#message", "It is paid").await?;
            tab.screenshot(&format!("{name}-paid")).await
        })
        .await
        .with_context(|| format!("examples/{name}"))?;
        ensure!(charge_count(&shop).await? == number + 1, "examples/{name}: {:?}", shop.payments().await?);
    }
    Ok(())
}

/// After a lost response, the reloaded page shows the outcome of the same order.
#[tokio::test]
async fn a_reloaded_page_belongs_to_the_same_order() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    for (number, (name, example)) in Example::all(&shop).await?.iter().enumerate() {
        shop.visit(async |browser| {
            browser.expect_console_error("ERR_CONNECTION_RESET");
            let tab = open(browser, example).await?;
            let page = tab.top();
            // A declined card charges nothing, and another one pays for the same order.
            pay(browser, &tab, "4000000000000002").await?;
            page.shows("#message", "declined").await?;
            tab.drop_responses(Some("*/pay")).await?;
            pay(browser, &tab, "4242424242424242").await?;
            page.shows("#message", "press Pay again").await?;
            tab.drop_responses(None).await?;
            tab.open(&example.url).await?;
            page.shows("#message", "It is paid").await?;
            // The link starts another order.
            page.click("a").await?;
            page.shows("button", "Pay").await
        })
        .await
        .with_context(|| format!("examples/{name}"))?;
        ensure!(charge_count(&shop).await? == number + 1, "examples/{name}: {:?}", shop.payments().await?);
    }
    Ok(())
}

#[tokio::test]
async fn the_outcome_is_shown_after_3d_secure() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    for (name, example) in &Example::all(&shop).await? {
        shop.visit(async |browser| {
            for (decision, message) in [("refuse", "declined"), ("confirm", "It is paid")] {
                let tab = open(browser, example).await?;
                let page = tab.top();
                pay(browser, &tab, "4000002500003155").await?;
                page.shows("button", "Confirm").await?;
                // After the Back button the page links to the bank again.
                tab.back().await?;
                page.shows("#message", "Your bank asks").await?;
                page.click("a").await?;
                page.shows("button", "Confirm").await?;
                page.click(&format!("button[value={decision}]")).await?;
                page.shows("h1", "Your order").await?;
                page.shows("#message", message).await?;
                ensure!(tab.url().await?.contains("/return?paymentId=pay_"), "{}", tab.url().await?);
                tab.screenshot(&format!("{name}-{decision}")).await?;
            }
            Ok(())
        })
        .await
        .with_context(|| format!("examples/{name}"))?;
    }
    Ok(())
}
