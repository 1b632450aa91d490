//! The card field in a merchant's page, the example shops, and framing.

mod examples;
mod framing;
mod messages;
mod script;
mod shadowed;

use anyhow::{Context, Result};
use reqwest::Method;
use testkit::{Client, browser::Site};

use crate::support::{Shop, cluster};
pub(crate) use script::checkout;

/// The URL of the script for merchants' pages.
pub(crate) async fn script_url() -> Result<String> {
    Ok(format!("{}/elements/v1.js", cluster().await?.api_url(0)))
}

/// A site that may use the shop's publishable key. Its site differs from the API's.
pub(crate) async fn site_of(shop: &Shop) -> Result<Site> {
    let site = Site::start()?;
    shop.set(&["--origin", &site.localhost_origin()]).await?;
    Ok(site)
}

/// The URL of a card field for a page of this origin.
async fn mount_url(shop: &Shop, origin: &str) -> Result<String> {
    let api = Client::new(&cluster().await?.api_url(0))?.bearer(&shop.account.publishable_key)?;
    let response = api.header("origin", origin)?.send(Method::POST, "/v1/checkout_sessions", None).await?;
    response.body["mountUrl"].as_str().map(str::to_owned).with_context(|| response.body.to_string())
}
