//! Surcharge, tax and tip of an account: the page shows them, and they are charged.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{BUTTON, assert_receipt, open, pay};
use crate::support::{Provider, Shop, card};

const MODIFIERS: &str = r#"{"surcharge": {"type": "percent", "value": 300}, "tax": {"type": "percent", "value": 825},
    "tip": {"type": "fixed", "value": 200}}"#;

async fn with_modifiers(provider: Provider) -> Result<Shop> {
    let shop = Shop::new(provider).await?;
    shop.set(&["--modifiers", MODIFIERS]).await?;
    Ok(shop)
}

/// Surcharge, tax and tip of a payment. Fails unless they add up to its amount.
fn parts(payment: &Value, base: i64) -> Result<[i64; 3]> {
    let part = |name: &str| payment[name].as_i64();
    let parts = ["amountSurcharge", "amountTax", "amountTip"].map(|name| part(name).unwrap_or(0));
    ensure!(part("amountBase") == Some(base), "{payment}");
    ensure!(part("amount") == Some(base + parts.iter().sum::<i64>()), "{payment}");
    Ok(parts)
}

#[tokio::test]
async fn the_parts_are_shown_and_charged() -> Result<()> {
    let shop = with_modifiers(Provider::Gateway).await?;
    let link = shop.link(10_000).await?;
    let mut total = String::new();
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        for text in ["$100.00", "Surcharge", "$3.00", "Tax", "Add a tip of $2.00"] {
            page.shows("main", text).await?;
        }
        let without = page.text(BUTTON).await?;
        ensure!(page.evaluate_on("input[name=tip]", "e => e.checked").await? == false, "the tip is preselected");
        page.click("input[name=tip]").await?;
        page.wait(&format!("document.querySelector('{BUTTON}').innerText !== {}", json!(without))).await?;
        total = page.text(BUTTON).await?.trim_start_matches("Pay ").to_owned();
        tab.screenshot("open").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, &total).await?;
        for text in ["Surcharge", "Tax", "Tip"] {
            page.shows("#receipt", text).await?;
        }
        tab.screenshot("paid").await
    })
    .await?;
    let payment = shop.payments().await?.pop().context("a payment")?;
    let [surcharge, tax, tip] = parts(&payment, 10_000)?;
    assert!((surcharge, tip) == (300, 200) && tax >= 825, "{payment}");
    let amount = payment["amount"].as_i64().context("an amount")?;
    assert_eq!(total, format!("${}.{:02}", amount / 100, amount % 100));
    shop.assert_paid(&link, amount).await.map(drop)
}

#[tokio::test]
async fn a_tip_is_charged_only_if_chosen() -> Result<()> {
    let shop = with_modifiers(Provider::Mock).await?;
    let invoice = shop
        .invoice(json!({
            "items": [{"description": "Tea", "quantity": 1, "unitAmount": 10_000}], "amountTax": 500,
        }))
        .await?;
    shop.visit(async |browser| {
        let tab = open(browser, &invoice).await?;
        let page = tab.top();
        let without = page.text(BUTTON).await?;
        for _ in 0..2 {
            page.click("input[name=tip]").await?;
        }
        page.wait(&format!("document.querySelector('{BUTTON}').innerText === {}", json!(without))).await?;
        tab.screenshot("open").await?;
        let total = page.text(BUTTON).await?.trim_start_matches("Pay ").to_owned();
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, &total).await?;
        tab.screenshot("paid").await
    })
    .await?;
    let payment = shop.payments().await?.pop().context("a payment")?;
    // The invoice already has a tax, so the tax of the account is not added.
    assert_eq!(parts(&payment, 10_500)?[1..], [0, 0], "{payment}");
    assert!(payment.get("amountTip").is_none() && payment.get("amountTax").is_none(), "{payment}");
    shop.assert_paid(&invoice, payment["amount"].as_i64().context("an amount")?).await.map(drop)
}

/// A cardholder is never charged an amount other than the one shown.
#[tokio::test]
async fn a_changed_amount_is_shown_before_it_is_charged() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(10_000).await?;
    shop.visit(async |browser| {
        browser.expect_console_error("409");
        let tab = open(browser, &link).await?;
        let page = tab.top();
        shop.set(&["--modifiers", r#"{"surcharge": {"type": "fixed", "value": 150}}"#]).await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        page.shows("[role=alert]", "The amount has changed").await?;
        tab.wait_until_loaded().await?;
        ensure!(page.text(BUTTON).await? == "Pay $101.50", "{}", page.text(BUTTON).await?);
        tab.screenshot("changed").await?;
        pay(browser, &tab, card("4242424242424242")).await?;
        assert_receipt(&tab, "$101.50").await
    })
    .await?;
    let payment = shop.assert_paid(&link, 10_150).await?;
    assert_eq!(parts(&payment, 10_000)?, [150, 0, 0]);
    Ok(())
}
