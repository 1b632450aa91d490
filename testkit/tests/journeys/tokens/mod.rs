//! From the page to the payment: origins, sessions, and tokens that are good once.

mod origins;
mod sessions;
mod spending;

use anyhow::Result;

use crate::support::{Browser, Merchant, cluster, merchant};

const SESSIONS: &str = "/v1/checkout_sessions";
const TOKENS: &str = "/v1/tokens";

/// A merchant and its page.
async fn shop() -> Result<(Merchant, Browser)> {
    let merchant = merchant().await?;
    let browser = Browser::of(cluster().await?, &merchant.account)?;
    Ok((merchant, browser))
}
