//! The shops that merchants copy: one order is charged once, and its outcome is shown.

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

/// How many payments have taken money.
async fn charged(shop: &Shop) -> Result<usize> {
    let payments = shop.payments().await?;
    Ok(payments.iter().filter(|payment| payment["status"] == "pending_settlement").count())
}

/// The answer is lost on its way to the page, whoever pays presses again, loads the page anew, and presses the Back button.
#[tokio::test]
async fn an_order_is_charged_once_though_the_answer_is_lost() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    for (number, (name, example)) in Example::all(&shop).await?.iter().enumerate() {
        shop.visit(async |browser| {
            browser.expect_complaint("ERR_CONNECTION_RESET");
            let tab = open(browser, example).await?;
            let page = tab.top();
            tab.drop_answers(Some("*/pay")).await?;
            for _ in 0..2 {
                pay(browser, &tab, "4242424242424242").await?;
                page.shows("#said", "press Pay again").await?;
            }
            tab.picture(&format!("{name}-lost")).await?;
            tab.drop_answers(None).await?;
            page.click("button").await?;
            for _ in 0..2 {
                page.shows("h1", "Your order").await?;
                page.shows("#said", "It is paid").await?;
                tab.open(&example.url).await?;
            }
            tab.back().await?;
            page.shows("#said", "It is paid").await?;
            tab.picture(&format!("{name}-paid")).await
        })
        .await
        .with_context(|| format!("examples/{name}"))?;
        ensure!(charged(&shop).await? == number + 1, "examples/{name}: {:?}", shop.payments().await?);
    }
    Ok(())
}

/// The page is loaded again instead: it knows the order, and shows what has become of it.
#[tokio::test]
async fn a_page_that_is_loaded_again_belongs_to_the_same_order() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    for (number, (name, example)) in Example::all(&shop).await?.iter().enumerate() {
        shop.visit(async |browser| {
            browser.expect_complaint("ERR_CONNECTION_RESET");
            let tab = open(browser, example).await?;
            let page = tab.top();
            // A card that is declined takes nothing, and another one pays for the same order.
            pay(browser, &tab, "4000000000000002").await?;
            page.shows("#said", "declined").await?;
            tab.drop_answers(Some("*/pay")).await?;
            pay(browser, &tab, "4242424242424242").await?;
            page.shows("#said", "press Pay again").await?;
            tab.drop_answers(None).await?;
            tab.open(&example.url).await?;
            page.shows("#said", "It is paid").await?;
            // Who wants more begins another order.
            page.click("a").await?;
            page.shows("button", "Pay").await
        })
        .await
        .with_context(|| format!("examples/{name}"))?;
        ensure!(charged(&shop).await? == number + 1, "examples/{name}: {:?}", shop.payments().await?);
    }
    Ok(())
}

#[tokio::test]
async fn the_outcome_is_shown_after_the_bank_has_asked() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    for (name, example) in &Example::all(&shop).await? {
        shop.visit(async |browser| {
            for (decision, says) in [("refuse", "declined"), ("confirm", "It is paid")] {
                let tab = open(browser, example).await?;
                let page = tab.top();
                pay(browser, &tab, "4000002500003155").await?;
                page.shows("button", "Confirm").await?;
                // Who goes back instead of deciding is told so, and finds the way to the bank.
                tab.back().await?;
                page.shows("#said", "Your bank asks").await?;
                page.click("a").await?;
                page.shows("button", "Confirm").await?;
                page.click(&format!("button[value={decision}]")).await?;
                page.shows("h1", "Your order").await?;
                page.shows("#said", says).await?;
                ensure!(tab.url().await?.contains("/return?paymentId=pay_"), "{}", tab.url().await?);
                tab.picture(&format!("{name}-{decision}")).await?;
            }
            Ok(())
        })
        .await
        .with_context(|| format!("examples/{name}"))?;
    }
    Ok(())
}
