//! Keys: who is let in, to what, and in which order a request is refused.

mod capabilities;
mod letting_in;
mod order;

use anyhow::{Context, Result};
use testkit::Client;

use crate::support::{Merchant, cluster};

/// A client with a new key of this kind that has only these entitlements.
pub(crate) async fn limited(merchant: &Merchant, kind: &str, entitlements: &[&str]) -> Result<Client> {
    let mut arguments = vec!["keys", "create", "--account", &merchant.account.id, "--kind", kind];
    entitlements.iter().for_each(|name| arguments.extend(["--entitlement", name]));
    let key = cluster().await?.ctl(&arguments).await?;
    Client::new(merchant.api.base())?.bearer(key["key"].as_str().context("a key")?)
}
