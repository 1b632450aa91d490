//! A whole payment by keys alone, and what a screen reader is told on the way.

use anyhow::{Result, ensure};
use testkit::browser::Tab;

use super::{BUTTON, is_paid, open};
use crate::support::{Provider, Shop, at_each_provider, card};

at_each_provider! { keys_are_enough_to_pay }

/// Presses Tab until the keys go to the first input.
async fn to_the_card(tab: &Tab) -> Result<()> {
    for _ in 0..10 {
        tab.press("Tab").await?;
        if tab.top().focused().await? == "#card-number" {
            return Ok(());
        }
    }
    anyhow::bail!("ten times Tab, and no card number")
}

async fn keys_are_enough_to_pay(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(2400).await?;
    let card = card("4242424242424242");
    shop.visit(async |browser| {
        card.keep(browser);
        let tab = open(browser, &link).await?;
        let page = tab.top();
        to_the_card(&tab).await?;
        // Enter in a field presses the button: nothing is entered yet, and it says so.
        tab.press("Enter").await?;
        page.shows("#card-number-error", "card number").await?;
        let mut walked = Vec::new();
        for keys in [card.number, card.expiry, card.code, "Ada Lovelace", "United States", "10001"] {
            walked.push(page.focused().await?);
            tab.keys(keys).await?;
            tab.press("Tab").await?;
        }
        ensure!(
            walked == ["#card-number", "#card-expiry", "#card-cvc", "#card-name", "#card-country", "#card-postal-code"],
            "{walked:?}"
        );
        ensure!(page.entered("#card-country").await? == "US", "{}", page.entered("#card-country").await?);
        ensure!(page.value("document.activeElement.type").await? == "submit", "Tab leads to the button");
        // Where the keys are can be seen.
        ensure!(page.value("getComputedStyle(document.activeElement).outlineStyle").await? != "none");
        tab.picture("filled").await?;
        tab.press("Enter").await?;
        is_paid(&tab, "$24.00").await
    })
    .await?;
    shop.was_paid(&link, 2400).await.map(drop)
}

#[tokio::test]
async fn every_input_has_a_name_that_is_spoken() -> Result<()> {
    let shop = Shop::new(Provider::Mock).await?;
    let link = shop.link(2400).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        for (input, name, fills, keyboard) in [
            ("#card-number", "Card number", "cc-number", "numeric"),
            ("#card-expiry", "Expiry date", "cc-exp", "numeric"),
            ("#card-cvc", "Security code", "cc-csc", "numeric"),
            ("#card-name", "Name on card", "cc-name", ""),
            ("#card-country", "Country", "country", ""),
            ("#card-postal-code", "Postal code", "postal-code", ""),
        ] {
            ensure!(page.spoken(input).await?.name == name, "{:?}", page.spoken(input).await?);
            ensure!(
                page.attribute(input, "autocomplete").await?.is_some_and(|token| token.ends_with(fills)),
                "{input}"
            );
            ensure!(page.attribute(input, "inputmode").await?.unwrap_or_default() == keyboard, "{input}");
            ensure!(page.attribute(input, "name").await?.is_none(), "{input} would be sent with the form");
            // A phone zooms into what is smaller, and is left there.
            let size = page.of(input, "e => parseFloat(getComputedStyle(e).fontSize)").await?;
            ensure!(size.as_f64().is_some_and(|size| size >= 16.0), "{input} is written in {size}");
        }
        let button = page.spoken(BUTTON).await?;
        ensure!((button.role.as_str(), button.name.as_str()) == ("button", "Pay $24.00"), "{button:?}");
        ensure!(page.count("h1").await? == 1 && page.count("html[lang]").await? == 1);
        Ok(())
    })
    .await
}
