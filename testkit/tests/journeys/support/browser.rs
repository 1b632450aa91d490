//! A page of the merchant in a cardholder's browser: a client with a publishable key and an `Origin`.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Account, Client, Cluster, Response};

use super::created;

/// The origin of the test merchants' pages.
pub(crate) const ORIGIN: &str = "https://shop.example";

/// A client with the rights of a page.
pub(crate) struct Browser {
    pub(crate) api: Client,
}

impl Browser {
    /// A page at [`ORIGIN`].
    pub(crate) fn for_account(cluster: &Cluster, account: &Account) -> Result<Self> {
        let api = Client::new(&cluster.api_url(0))?.bearer(&account.publishable_key)?.header("origin", ORIGIN)?;
        Ok(Self { api })
    }

    /// The id of a new checkout session.
    pub(crate) async fn session(&self) -> Result<String> {
        let response = self.api.send(reqwest::Method::POST, "/v1/checkout_sessions", None).await?;
        text(created(&response), "sessionId")
    }

    /// Exchanges an upstream token of a card field for a payment token.
    pub(crate) async fn exchange(&self, session: &str, upstream: &str) -> Result<Response> {
        self.api.post("/v1/tokens", json!({"sessionId": session, "upstreamToken": upstream})).await
    }

    /// A new payment token for this test card.
    pub(crate) async fn token(&self, upstream: &str) -> Result<String> {
        let response = self.exchange(&self.session().await?, upstream).await?;
        text(created(&response), "paymentToken")
    }
}

fn text(object: &Value, field: &str) -> Result<String> {
    object[field].as_str().map(str::to_owned).with_context(|| format!("no {field} in {object}"))
}
