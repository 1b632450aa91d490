//! From the page to the payment: origins, checkout sessions, and single-use tokens.

mod origins;
mod sessions;
mod usage;

use anyhow::Result;

use crate::support::{Browser, Merchant, cluster, merchant};

const SESSIONS: &str = "/v1/checkout_sessions";
const TOKENS: &str = "/v1/tokens";

/// A merchant and a browser on its page.
async fn shop() -> Result<(Merchant, Browser)> {
    let merchant = merchant().await?;
    let browser = Browser::for_account(cluster().await?, &merchant.account)?;
    Ok((merchant, browser))
}
