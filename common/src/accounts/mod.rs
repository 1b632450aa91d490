//! Accounts (a merchant in one mode), the provider accounts behind them, and their API keys.

mod admin;
mod authentication;
mod keys;
mod payee;
mod rehash;
mod scope;
mod settlement;
mod time;
mod usage;

pub use admin::{AccountRow, AccountSettings, connect, create, list, read_statements, set, set_unsupported};
pub use authentication::{AuthError, Keys};
pub use keys::{
    IssuedKey, KeyFilter, KeyRow, issue_publishable, issue_secret, key_id, list as list_keys, revoke, revoke_all,
    rotate,
};
pub use payee::{Payee, payee};
pub use rehash::{Elsewhere, hashed_elsewhere, rehash_publishable, samples as key_samples};
pub use scope::Scope;
pub use settlement::{Settlement, settlement};
pub use time::AccountTime;

use serde::Serialize;
use sqlx::{PgConnection, PgExecutor, PgPool};

use crate::calendar::TimeZone;
use crate::capabilities::{Grants, Operation};
use crate::config::{self, ConfigError};
use crate::error::{Error, Result};
use crate::id::{AccountId, KeyId, ProviderAccountId};
use crate::providers::ProviderKind;
use crate::public_url;
use crate::time::Timestamp;

/// Returns when it is known that this service may be named by this address: with live accounts that is `https://`, or on this
/// machine. Until Postgres answers, it is not.
///
/// # Errors
/// There are live accounts, and the address is another. The process must not go on.
pub async fn public_url_fits(db: &PgPool, base: &str) -> std::result::Result<(), ConfigError> {
    if public_url::is_fit_for_live(base) {
        return Ok(());
    }
    config::fits(async || {
        let live = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT 1 FROM accounts WHERE mode = 'live') AS "live!""#);
        let problem = "must begin with https://, for there are live accounts";
        Ok::<_, sqlx::Error>(live.fetch_one(db).await?.then_some(ConfigError { name: "PUBLIC_URL", problem }))
    })
    .await
}

/// Test or live: they share no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(type_name = "account_mode", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The sandbox: no money moves.
    Test,
    /// Money moves.
    Live,
}

impl Mode {
    /// `test` or `live`.
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
    /// On the merchant's server: everything.
    Secret,
    /// In a browser: start a checkout session and exchange a token.
    Publishable,
}

/// How often a key may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Requests per second, in the long run.
    pub per_second: u32,
    /// Requests at once.
    pub burst: u32,
}

impl Rate {
    /// What holds where an operator has set nothing.
    pub const fn default_of(mode: Mode) -> Self {
        match mode {
            Mode::Test => Self { per_second: 25, burst: 50 },
            Mode::Live => Self { per_second: 100, burst: 200 },
        }
    }
}

/// The time zone in which an account counts its days.
///
/// # Errors
/// The database's; [`Error::Internal`] for a zone that this machine does not know.
pub async fn timezone(db: impl PgExecutor<'_>, account: AccountId) -> Result<TimeZone> {
    let query = sqlx::query_scalar!("SELECT timezone FROM accounts WHERE id = $1", account.uuid());
    let name = query.fetch_one(db).await?;
    name.parse().map_err(|error| Error::internal(format!("the zone {name:?} of {account}: {error}")))
}

/// Keeps whoever wants the same from what an account may have only so many of, until this transaction ends. An account is locked
/// before anything that it has.
///
/// # Errors
/// Only the database's.
pub async fn lock(tx: &mut PgConnection, account: AccountId) -> Result<()> {
    sqlx::query!("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", account.uuid()).fetch_one(tx).await?;
    Ok(())
}

/// What time it is for an account when everyone else's is `at`: a test account's clock may be ahead.
///
/// # Errors
/// Only the database's.
pub async fn now(db: impl PgExecutor<'_>, account: AccountId, at: Timestamp) -> Result<Timestamp> {
    let query = sqlx::query_scalar!(r#"SELECT account_now($1, $2) AS "now!""#, account.uuid(), at);
    Ok(query.fetch_one(db).await?)
}

/// Who makes a request: a key, its account, and what they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The key.
    pub key_id: KeyId,
    /// Its kind.
    pub key_kind: KeyKind,
    /// The account it belongs to.
    pub account_id: AccountId,
    /// The account's mode.
    pub mode: Mode,
    /// The account's time.
    pub time: AccountTime,
    /// Where the account's new money goes.
    pub provider_account_id: ProviderAccountId,
    /// Who settles it.
    pub provider: ProviderKind,
    /// What the key may do.
    pub grants: Grants,
    /// Origins that may use the publishable key; an empty list refuses all.
    pub allowed_origins: Vec<String>,
    /// How often the key may ask.
    pub rate: Rate,
    /// What the key signs its requests with, as stored: encrypted in the context of the key's id.
    pub signing_secret: Option<Vec<u8>>,
    /// The account's surcharge, tax and tip, as configured.
    pub modifiers: serde_json::Value,
}

impl Caller {
    /// Whether objects of this account are live.
    pub fn livemode(&self) -> bool {
        self.mode == Mode::Live
    }

    /// Refuses what the key may not do.
    ///
    /// # Errors
    /// As [`Grants::require`].
    pub fn require(&self, operation: Operation) -> Result<()> {
        self.grants.require(operation)
    }
}
