//! A payment by keyboard alone, and the accessible names of the inputs.

use anyhow::{Result, ensure};
use testkit::browser::Tab;

use super::{BUTTON, assert_receipt, open};
use crate::support::{Provider, Shop, card};

/// Presses Tab until the first input has the focus.
async fn focus_card_number(tab: &Tab) -> Result<()> {
    for _ in 0..10 {
        tab.press("Tab").await?;
        if tab.top().focused().await? == "#card-number" {
            return Ok(());
        }
    }
    anyhow::bail!("the card number is not reached by 10 times Tab")
}

#[tokio::test]
async fn a_payment_is_made_by_keyboard() -> Result<()> {
    let shop = Shop::new(Provider::Gateway).await?;
    let link = shop.link(2400).await?;
    let card = card("4242424242424242");
    shop.visit(async |browser| {
        card.register(browser);
        let tab = open(browser, &link).await?;
        let page = tab.top();
        focus_card_number(&tab).await?;
        // Enter in a field submits the form, which reports the empty fields.
        tab.press("Enter").await?;
        page.shows("#card-number-error", "card number").await?;
        let mut focused = Vec::new();
        for keys in [card.number, card.expiry, card.code, "Ada Lovelace", "United States", "10001"] {
            focused.push(page.focused().await?);
            tab.type_text(keys).await?;
            tab.press("Tab").await?;
        }
        ensure!(
            focused
                == ["#card-number", "#card-expiry", "#card-cvc", "#card-name", "#card-country", "#card-postal-code"],
            "{focused:?}"
        );
        ensure!(page.input_value("#card-country").await? == "US", "{}", page.input_value("#card-country").await?);
        ensure!(page.value("document.activeElement.type").await? == "submit", "the next focus is not the button");
        // The focus must be visible.
        ensure!(page.value("getComputedStyle(document.activeElement).outlineStyle").await? != "none");
        tab.screenshot("filled").await?;
        tab.press("Enter").await?;
        assert_receipt(&tab, "$24.00").await
    })
    .await?;
    shop.assert_paid(&link, 2400).await.map(drop)
}

#[tokio::test]
async fn every_input_has_an_accessible_name() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(2400).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        for (input, name, autocomplete, keyboard) in [
            ("#card-number", "Card number", "cc-number", "numeric"),
            ("#card-expiry", "Expiry date", "cc-exp", "numeric"),
            ("#card-cvc", "Security code", "cc-csc", "numeric"),
            ("#card-name", "Name on card", "cc-name", ""),
            ("#card-country", "Country", "country", ""),
            ("#card-postal-code", "Postal code", "postal-code", ""),
        ] {
            ensure!(page.accessibility(input).await?.name == name, "{:?}", page.accessibility(input).await?);
            ensure!(
                page.attribute(input, "autocomplete").await?.is_some_and(|token| token.ends_with(autocomplete)),
                "{input}"
            );
            ensure!(page.attribute(input, "inputmode").await?.unwrap_or_default() == keyboard, "{input}");
            ensure!(page.attribute(input, "name").await?.is_none(), "{input} would be sent with the form");
            // Phones zoom into inputs with a smaller font and do not zoom out again.
            let size = page.evaluate_on(input, "e => parseFloat(getComputedStyle(e).fontSize)").await?;
            ensure!(size.as_f64().is_some_and(|size| size >= 16.0), "{input} has the font size {size}");
        }
        let button = page.accessibility(BUTTON).await?;
        ensure!((button.role.as_str(), button.name.as_str()) == ("button", "Pay $24.00"), "{button:?}");
        ensure!(page.count("h1").await? == 1 && page.count("html[lang]").await? == 1);
        Ok(())
    })
    .await
}
