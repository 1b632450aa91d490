//! A card in a cardholder's hand.

use anyhow::Result;
use testkit::browser::{Browser, Frame, Secret};

/// What is printed on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Card {
    pub(crate) number: &'static str,
    pub(crate) expiry: &'static str,
    pub(crate) code: &'static str,
}

/// A test card that is good for long.
pub(crate) fn card(number: &'static str) -> Card {
    Card { number, expiry: "1239", code: "739" }
}

impl Card {
    /// Types it into the inputs of a page or a card field. From then on it is secret.
    pub(crate) async fn enter(&self, browser: &Browser, page: &Frame<'_>) -> Result<()> {
        self.keep(browser);
        page.enter("#card-number", self.number).await?;
        page.enter("#card-expiry", self.expiry).await?;
        page.enter("#card-cvc", self.code).await?;
        page.enter("#card-name", "Ada Lovelace").await?;
        page.choose("#card-country", "US").await?;
        page.enter("#card-postal-code", "10001").await
    }

    /// It must not leave the browser, but for the provider.
    pub(crate) fn keep(&self, browser: &Browser) {
        browser.keep(Secret::Number(self.number.to_owned()));
        browser.keep(Secret::Code(self.code.to_owned()));
    }
}
