//! Accounts of a cluster, and their connections to providers.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};

use super::Cluster;
use crate::{
    Account, GatewayAccount, PortalUser,
    account::{portal_user, run_ctl_with},
    files::random_hex,
    gateway_account,
    stripe::StripeKeys,
};

impl Cluster {
    /// A new test account on the mock provider with a practically unlimited request rate.
    ///
    /// # Errors
    /// When `ctl` fails.
    pub async fn account(&self) -> Result<Account> {
        let no_limit = ["--rate-limit", "1000000", "--burst", "1000000"];
        self.account_with(&[&["--mode", "test", "--provider", "mock"][..], &no_limit].concat()).await
    }

    /// A new account with these options for `ctl accounts create`.
    ///
    /// # Errors
    /// When `ctl` fails.
    pub async fn account_with(&self, options: &[&str]) -> Result<Account> {
        let arguments = [&["accounts", "create", "--name", "Test"], options].concat();
        serde_json::from_value(self.ctl(&arguments).await?).context("ctl did not print an account")
    }

    /// A new test account that settles at a new account of this cluster's card gateway, both practically without
    /// limits. `options` are those of `gateway account create`.
    ///
    /// # Errors
    /// When `ctl` or the gateway's command line fails.
    pub async fn account_at_gateway(&self, options: &[&str]) -> Result<(Account, GatewayAccount)> {
        let no_limits = ["--monthly-limit", "999999999.99", "--daily-transactions", "1000000"];
        let username = format!("shop-{}", random_hex(8)?);
        let credentials = self.gateway_account(&username, &[&no_limits, options].concat()).await?;
        let no_limit = ["--rate-limit", "1000000", "--burst", "1000000"];
        let account = [&["--mode", "test", "--provider", "card_gateway"][..], &no_limit].concat();
        let account = self.account_with(&account).await?;
        self.connect(&account, &credentials, &[]).await?;
        Ok((account, credentials))
    }

    /// Stores the gateway account's credentials for a merchant account, with these options for `ctl accounts connect`.
    ///
    /// # Errors
    /// When `ctl` fails.
    pub async fn connect(&self, account: &Account, credentials: &GatewayAccount, options: &[&str]) -> Result<()> {
        gateway_account::connect(&self.programs, &self.environment, &account.id, credentials, options).await
    }

    /// Connects a merchant account to an account at Stripe, or at its double.
    ///
    /// # Errors
    /// When `ctl` fails.
    pub async fn connect_stripe(&self, account: &Account, keys: &StripeKeys) -> Result<()> {
        let arguments = ["accounts", "connect", &account.id, "--provider", "stripe"];
        run_ctl_with(&self.programs.path("ctl")?, &self.environment, &arguments, &keys.json()).await.map(drop)
    }

    /// Creates a user of the portal with this role for the merchant of an account.
    ///
    /// # Errors
    /// When `ctl` fails.
    pub async fn portal_user(&self, account: &Account, role: &str) -> Result<PortalUser> {
        static USERS: AtomicU64 = AtomicU64::new(0);
        let email = format!("user{}.{}@shop.example", USERS.fetch_add(1, Ordering::Relaxed), account.id.to_lowercase());
        portal_user(&self.programs.path("ctl")?, &self.environment, &account.id, &email, role).await
    }
}
