//! API keys: authentication, entitlements, and the order of the checks.

mod authentication;
mod capabilities;

mod order;

use anyhow::{Context, Result};
use testkit::Client;

use crate::support::{Merchant, cluster};

/// A client with a new key of this kind, limited to these entitlements.
pub(crate) async fn limited(merchant: &Merchant, kind: &str, entitlements: &[&str]) -> Result<Client> {
    let mut arguments = vec!["keys", "create", "--account", &merchant.account.id, "--kind", kind];
    entitlements.iter().for_each(|name| arguments.extend(["--entitlement", name]));
    let key = cluster().await?.ctl(&arguments).await?;
    Client::new(merchant.api.base())?.bearer(key["key"].as_str().context("a key")?)
}
