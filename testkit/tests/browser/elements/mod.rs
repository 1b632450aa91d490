//! The card field in a merchant's page, and who may frame what.

mod examples;
mod framing;
mod messages;
mod script;

use anyhow::{Context, Result};
use reqwest::Method;
use testkit::{Client, browser::Site};

use crate::support::{Shop, cluster};

/// The script of merchants' pages.
async fn script() -> Result<String> {
    Ok(format!("{}/elements/v1.js", cluster().await?.api_url(0)))
}

/// A shop's site may use its publishable key; the site is another site than the API's.
async fn site_of(shop: &Shop) -> Result<Site> {
    let site = Site::start()?;
    shop.set(&["--origin", &site.named_origin()]).await?;
    Ok(site)
}

/// The address of a card field for a page of this origin.
async fn mount_url(shop: &Shop, origin: &str) -> Result<String> {
    let api = Client::new(&cluster().await?.api_url(0))?.bearer(&shop.account.publishable_key)?;
    let answer = api.header("origin", origin)?.send(Method::POST, "/v1/checkout_sessions", None).await?;
    answer.body["mountUrl"].as_str().map(str::to_owned).with_context(|| answer.body.to_string())
}
