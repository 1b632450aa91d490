//! Accounts (a merchant in one mode), the provider accounts behind them, and their API keys.

mod admin;
mod authentication;
mod gateway_accounts;
mod keys;
mod logo;
mod payee;
mod rehash;
mod rows;
mod scope;
mod settlement;
mod time;
mod usage;

pub use admin::{
    AccountSettings, at_stripe, connect, connect_stripe, create, set, set_reconciliation, set_unsupported, unsupported,
};
pub use authentication::{AuthError, Keys};
pub use gateway_accounts::shared as sharing_a_gateway_account;
pub(crate) use keys::stored_name;
pub use keys::{
    IssuedKey, KeyFilter, KeyRow, find as find_key, issue_publishable, issue_secret, key_id, list as list_keys,
    names as key_names, newest as newest_keys, rename, revoke, revoke_all, rotate, signing_secret_place,
};
pub use logo::{Logo, Picture, logo, owner_of_logo, remove_logo, set_logo};
pub use payee::{Payee, payee};
pub use rehash::{KeysUnderOtherPeppers, keys_under_other_peppers, rehash_publishable, samples as key_samples};
pub use rows::{AccountRow, list, retrieve};
pub use scope::Scope;
pub use settlement::{Settlement, settlement};
pub use time::AccountTime;

use std::collections::HashMap;

use serde::Serialize;
use sqlx::{PgConnection, PgExecutor, PgPool};

use foundation::calendar::TimeZone;
use foundation::config::{self, ConfigError};
use foundation::db::column;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, KeyId, ProviderAccountId};
use foundation::money::Money;
use foundation::public_url;
use foundation::time::Timestamp;
use providers::ProviderKind;
use providers::capabilities::{Grants, Permission};

/// Waits until the database confirms that this URL may be the service's public URL: if there are live accounts, it must
/// be `https://` or on this machine.
///
/// # Errors
/// There are live accounts and the URL is neither. The process must exit.
pub async fn check_public_url(db: &PgPool, base: &str) -> std::result::Result<(), ConfigError> {
    if public_url::is_allowed_for_live(base) {
        return Ok(());
    }
    config::wait_until_consistent(async || {
        let live = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT 1 FROM accounts WHERE mode = 'live') AS "live!""#);
        let problem = "must begin with https:// because there are live accounts";
        Ok::<_, sqlx::Error>(live.fetch_one(db).await?.then_some(ConfigError { name: "PUBLIC_URL", problem }))
    })
    .await
}

/// Test and live accounts share no objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(type_name = "account_mode", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The sandbox: no money moves.
    Test,
    Live,
}

impl Mode {
    pub const ALL: [Self; 2] = [Self::Test, Self::Live];

    /// The label of metrics too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Live => "live",
        }
    }
}

/// Where a key may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(type_name = "key_kind", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// On the merchant's server, for all operations.
    Secret,
    /// In a browser, to start a checkout session and exchange a token.
    Publishable,
}

/// The rate limit of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Sustained requests per second.
    pub per_second: u32,
    pub burst: u32,
}

impl Rate {
    /// The limit if an operator has not set one.
    pub const fn default_of(mode: Mode) -> Self {
        match mode {
            Mode::Test => Self { per_second: 25, burst: 50 },
            Mode::Live => Self { per_second: 100, burst: 200 },
        }
    }
}

/// The time zone of an account's billing days.
///
/// # Errors
/// Database errors; [`Error::Internal`] for a time zone that this machine does not know.
pub async fn timezone(db: impl PgExecutor<'_>, account: AccountId) -> Result<TimeZone> {
    let query = sqlx::query_scalar!("SELECT timezone FROM accounts WHERE id = $1", account.uuid());
    parse_timezone(account, &query.fetch_one(db).await?)
}

/// The time zones of accounts.
///
/// # Errors
/// As [`timezone`], if it is so for one of them.
pub async fn timezones(db: impl PgExecutor<'_>, accounts: &[AccountId]) -> Result<HashMap<AccountId, TimeZone>> {
    let accounts = column(accounts, |account| account.uuid());
    let rows = sqlx::query!("SELECT id, timezone FROM accounts WHERE id = ANY ($1)", &accounts).fetch_all(db).await?;
    rows.into_iter().map(|row| Ok((row.id, parse_timezone(row.id, &row.timezone)?))).collect()
}

pub(crate) fn parse_timezone(account: AccountId, name: &str) -> Result<TimeZone> {
    name.parse().map_err(|error| Error::internal(format!("the zone {name:?} of {account}: {error}")))
}

/// Locks an account until the transaction ends, so that concurrent requests cannot exceed one of its quotas. An account
/// is locked before any of its objects.
///
/// # Errors
/// Database errors only.
pub async fn lock(tx: &mut PgConnection, account: AccountId) -> Result<()> {
    sqlx::query!("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", account.uuid()).fetch_one(tx).await?;
    Ok(())
}

/// Returns the time of an account when the system time is `at`: a test clock may be ahead.
///
/// # Errors
/// Database errors only.
pub async fn now(db: impl PgExecutor<'_>, account: AccountId, at: Timestamp) -> Result<Timestamp> {
    let query = sqlx::query_scalar!(r#"SELECT account_now($1, $2) AS "now!""#, account.uuid(), at);
    Ok(query.fetch_one(db).await?)
}

/// The key that makes a request, its account, and its permissions.
#[derive(Clone, Debug)]
pub struct Caller {
    pub key_id: KeyId,
    pub key_kind: KeyKind,
    pub account_id: AccountId,
    pub mode: Mode,
    pub time: AccountTime,
    /// The provider account for new payments.
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    /// As [`Settlement::currencies`] of that provider account.
    pub currencies: Option<Vec<String>>,
    pub grants: Grants,
    /// Origins that may use the publishable key; an empty list refuses all.
    pub allowed_origins: Vec<String>,
    pub rate: Rate,
    /// The secret with which the key signs requests, encrypted and bound to the key's id.
    pub signing_secret: Option<Vec<u8>>,
    /// The configured surcharge, tax and tip.
    pub modifiers: serde_json::Value,
}

impl Caller {
    pub fn livemode(&self) -> bool {
        self.mode == Mode::Live
    }

    /// Checks that new payments can be of exactly this amount, as far as was known when the key was read.
    ///
    /// # Errors
    /// As [`Settlement::require`].
    pub fn require_money(&self, money: Money) -> Result<()> {
        settlement::require(self.provider, self.currencies.as_deref(), money)
    }

    /// Checks that the key may perform this operation.
    ///
    /// # Errors
    /// As [`Grants::require`].
    pub fn require(&self, operation: Permission) -> Result<()> {
        self.grants.require(operation)
    }
}
