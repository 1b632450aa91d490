//! A page of the merchant in a cardholder's browser: a publishable key and an origin.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Account, Answer, Client, Cluster};

use super::created;

/// Where the pages of test merchants live.
pub(crate) const ORIGIN: &str = "https://shop.example";

/// What a page can do.
pub(crate) struct Browser {
    pub(crate) api: Client,
}

impl Browser {
    /// A page at [`ORIGIN`].
    pub(crate) fn of(cluster: &Cluster, account: &Account) -> Result<Self> {
        let api = Client::new(&cluster.api_url(0))?.bearer(&account.publishable_key)?.header("origin", ORIGIN)?;
        Ok(Self { api })
    }

    /// The id of a new checkout session.
    pub(crate) async fn session(&self) -> Result<String> {
        let answer = self.api.send(reqwest::Method::POST, "/v1/checkout_sessions", None).await?;
        text(created(&answer), "sessionId")
    }

    /// Exchanges what a card field got for a payment token.
    pub(crate) async fn exchange(&self, session: &str, upstream: &str) -> Result<Answer> {
        self.api.post("/v1/tokens", json!({"sessionId": session, "upstreamToken": upstream})).await
    }

    /// A fresh payment token for this test card.
    pub(crate) async fn token(&self, upstream: &str) -> Result<String> {
        let answer = self.exchange(&self.session().await?, upstream).await?;
        text(created(&answer), "paymentToken")
    }
}

fn text(object: &Value, field: &str) -> Result<String> {
    object[field].as_str().map(str::to_owned).with_context(|| format!("no {field} in {object}"))
}
