//! A merchant's money is settled by the card gateway, and nothing of /v1 shows it.

mod challenges;
mod connecting;
mod faults;
mod held_up;
mod keys;
mod moving;
mod pages;
mod payments;
mod tokens;

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
