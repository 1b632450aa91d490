//! The pages in each language.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::browser::{Device, Tab};

use super::BUTTON;
use crate::support::{Provider, Shop, address, assert_accessible};

/// The languages, and the text of the button, in part.
const LANGUAGES: [(&str, &str); 5] =
    [("de", "bezahlen"), ("en", "Pay "), ("es", "Pagar "), ("fr", "Payer "), ("ja", "支払")];
/// The largest amount.
const LARGEST: i64 = 9_007_199_254_740_991;

/// Fails if something is wider than the window, an amount is broken across lines, or a label does not fit.
async fn assert_fits(tab: &Tab, what: &str) -> Result<()> {
    let page = tab.top();
    let width = page.value("[document.documentElement.scrollWidth, innerWidth]").await?;
    ensure!(width[0].as_u64() <= width[1].as_u64(), "{what}: the page is {} px wide", width[0]);
    let broken =
        "[...document.querySelectorAll('.amount')].filter(e => e.getClientRects().length > 1).map(e => e.innerText)";
    ensure!(page.value(broken).await? == json!([]), "{what}: {}", page.value(broken).await?);
    let cut =
        "[...document.querySelectorAll('label, th, dt, button, .badge')].filter(e => e.scrollWidth > e.clientWidth + 1)
                   .map(e => e.innerText)";
    ensure!(page.value(cut).await? == json!([]), "{what}: cut off: {}", page.value(cut).await?);
    tab.screenshot_at_current_size(what).await
}

async fn open_in(tab: &Tab, object: &Value, language: &str, device: Device) -> Result<()> {
    tab.resize(device).await?;
    tab.open(&format!("{}?lang={language}", address(object)?)).await?;
    ensure!(tab.top().attribute("html", "lang").await?.as_deref() == Some(language));
    Ok(())
}

/// An invoice with long and right-to-left texts, a discount and a tax.
async fn invoice(shop: &Shop) -> Result<Value> {
    shop.invoice(json!({
        "description": "ספה נוחה לסלון עם שני כיסאות תואמים",
        "items": [
            {"description": "Donaudampfschifffahrtsgesellschaftskapitänsmütze", "quantity": 12, "unitAmount": 123_456_789},
            {"description": "مقعد مريح", "quantity": 1, "unitAmount": 5},
        ],
        "amountDiscount": 100_000, "amountTax": 2_345_678, "dueAt": "2020-01-01T00:00:00Z",
    }))
    .await
}

#[tokio::test]
async fn every_page_fits_the_narrowest_phone_and_a_desktop_in_every_language() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let contact = "Frag uns gern: Donaudampfschifffahrtsgesellschaft@shop.example";
    shop.set(&["--name", "متجر الشاي Ada's", "--support-contact", contact]).await?;
    // Too light for a text on white, and for a white text on it.
    let address = "Donaudampfschifffahrtsgesellschaftsstraße 12\n1010 Wien";
    shop.set(&["--color", "#ffd400", "--address", address, "--tax-number", "ATU12345678"]).await?;
    shop.set(&["--modifiers", r#"{"tip": {"type": "fixed", "value": 250}}"#]).await?;
    let (open, voided, largest) = (invoice(&shop).await?, invoice(&shop).await?, shop.link(LARGEST - 250).await?);
    shop.post(&format!("/v1/invoices/{}/void", voided["id"].as_str().context("an id")?)).await?;
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        for (language, button) in LANGUAGES {
            open_in(&tab, &open, language, Device::SmallPhone).await?;
            tab.top().shows(BUTTON, button).await?;
            tab.top().shows(".contact", contact).await?;
            tab.top().shows(".seller", "ATU12345678").await?;
            assert_fits(&tab, &format!("open-{language}")).await?;
            // With each error message shown.
            tab.top().click(BUTTON).await?;
            tab.top().wait("document.querySelectorAll('.error:not(:empty)').length >= 4").await?;
            assert_fits(&tab, &format!("errors-{language}")).await?;
            // The rules do not depend on the language.
            let is_checked = language == "de";
            if is_checked {
                assert_accessible(&tab, &tab.top(), "open-axe").await?;
            }
            tab.open(&format!("{}/unsubscribe?lang={language}", super::address(&open)?)).await?;
            tab.top().shows("[role=status]", "متجر الشاي Ada's").await?;
            tab.top().shows(".contact", contact).await?;
            assert_fits(&tab, &format!("receipts-{language}")).await?;
            if is_checked {
                assert_accessible(&tab, &tab.top(), "receipts-axe").await?;
            }
            for (object, what) in [(&voided, "voided"), (&largest, "largest")] {
                open_in(&tab, object, language, Device::SmallPhone).await?;
                assert_fits(&tab, &format!("{what}-{language}")).await?;
            }
            for (object, what) in [(&open, "open"), (&largest, "largest")] {
                open_in(&tab, object, language, Device::Desktop).await?;
                assert_fits(&tab, &format!("{what}-{language}-desktop")).await?;
            }
        }
        Ok(())
    })
    .await
}

/// The language is chosen on the page, and kept after the payment.
#[tokio::test]
async fn a_payer_chooses_the_language() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(500).await?;
    shop.visit(async |browser| {
        let tab = super::open(browser, &link).await?;
        tab.top().shows("h2", "Pay by card").await?;
        tab.top().click("nav a[lang=de]").await?;
        tab.top().shows("h2", "Mit Karte bezahlen").await?;
        super::pay(browser, &tab, crate::support::card("4000000000009995")).await?;
        tab.top().shows("#outcome", "nichts abgebucht").await?;
        super::pay(browser, &tab, crate::support::card("4242424242424242")).await?;
        tab.top().shows("#receipt", "5,00").await?;
        tab.top().shows("[role=status]", "Bezahlt am").await?;
        // Another payer sees the receipt, too, but not the card.
        let other = browser.tab().await?;
        other.open(&format!("{}?lang=de", address(&link)?)).await?;
        other.top().shows("#receipt", "5,00").await?;
        ensure!(!other.top().text("main").await?.contains("4242"), "the card is shown to others");
        other.screenshot("receipt").await
    })
    .await
}
