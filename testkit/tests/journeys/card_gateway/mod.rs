//! Merchants whose provider is the card gateway. /v1 behaves as with any other provider.

mod challenges;
mod connecting;
mod faults;
mod keys;
mod pages;
mod payments;
mod provider_change;
mod refusals;
mod tokens;
mod wrong_amounts;

use anyhow::Result;

use crate::support::{Shop, cluster};

/// Test cards of the gateway.
const APPROVES: &str = "4242424242424242";
const DECLINED: &str = "4000000000000002";
const INSUFFICIENT: &str = "4000000000009995";
const CHALLENGED: &str = "4000002500003155";

async fn shop() -> Result<Shop> {
    Shop::new(cluster().await?, &[]).await
}
