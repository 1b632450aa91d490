//! Test cards.

use anyhow::Result;
use testkit::browser::{Browser, Frame, Secret};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Card {
    pub(crate) number: &'static str,
    pub(crate) expiry: &'static str,
    pub(crate) code: &'static str,
}

/// A test card that expires in 2039.
pub(crate) fn card(number: &'static str) -> Card {
    Card { number, expiry: "1239", code: "739" }
}

impl Card {
    /// Types the card into the inputs of a page or card field, and registers it as a secret.
    pub(crate) async fn enter(&self, browser: &Browser, page: &Frame<'_>) -> Result<()> {
        self.register(browser);
        page.enter("#card-number", self.number).await?;
        page.enter("#card-expiry", self.expiry).await?;
        page.enter("#card-cvc", self.code).await?;
        page.enter("#card-name", "Ada Lovelace").await?;
        page.choose("#card-country", "US").await?;
        page.enter("#card-postal-code", "10001").await
    }

    /// Registers the card as a secret: the browser may send it only to trusted origins.
    pub(crate) fn register(&self, browser: &Browser) {
        browser.add_secret(Secret::CardNumber(self.number.to_owned()));
        browser.add_secret(Secret::SecurityCode(self.code.to_owned()));
    }
}
