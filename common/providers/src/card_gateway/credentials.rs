//! The credentials of our accounts at the gateway. They are encrypted at rest; a process caches them for a short time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use sqlx::{PgExecutor, PgPool};

use crate::ProviderError;
use foundation::crypto::{KeyRing, Place, Secret};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, ProviderAccountId};
use foundation::time::Timestamp;

/// How long a cached entry is used without a query.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// How long a cached entry is used while the database is unavailable. Credentials that were changed in the meantime
/// would be refused, which fails an operation's first request.
const STALE_FOR: Duration = Duration::from_secs(10 * 60);
/// Maximum number of cached accounts; the cache is cleared when it is full.
const MAX_ENTRIES: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Credentials {
    pub username: String,
    pub api_key: Secret<String>,
    /// The 16 characters with which the gateway signs the tokens that browsers submit.
    pub secret_key: Secret<String>,
    /// The previous secret key, with which the gateway signs tokens for pages that still use the previous keys.
    pub former_secret_key: Option<Secret<String>>,
    /// Until when it does so, by the gateway's clock.
    pub former_keys_until: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Stored {
    username: String,
    api_key: String,
    secret_key: String,
    former_secret_key: Option<String>,
    former_keys_until: Option<String>,
}

impl Credentials {
    /// Parses the JSON object `{username, api_key, secret_key}`, with `former_keys_until` after a rotation; `None` for
    /// anything else.
    pub fn parse(json: &str) -> Option<Self> {
        let stored: Stored = serde_json::from_str(json).ok()?;
        let Stored { username, api_key, secret_key, former_secret_key, former_keys_until } = stored;
        let complete = !username.is_empty() && !api_key.is_empty() && secret_key.len() == 16;
        let former_keys_until = match former_keys_until {
            Some(text) => Some(Timestamp::parse(&text)?),
            None => None,
        };
        complete.then(|| Self {
            username,
            api_key: Secret::new(api_key),
            secret_key: Secret::new(secret_key),
            former_secret_key: former_secret_key.map(Secret::new),
            former_keys_until,
        })
    }

    /// Keeps what is still needed of the credentials that these replace. Connecting the same credentials again changes
    /// nothing.
    #[must_use]
    pub fn replacing(self, former: Self) -> Self {
        if former.secret_key.expose() == self.secret_key.expose() {
            let Self { former_secret_key, former_keys_until, .. } = former;
            return Self { former_secret_key, former_keys_until, ..self };
        }
        Self { former_secret_key: Some(former.secret_key), ..self }
    }

    /// Encrypts them for the row of the provider account.
    pub fn seal(&self, key: &KeyRing, owner: AccountId, account: ProviderAccountId) -> Vec<u8> {
        let json = serde_json::json!({
            "username": self.username, "api_key": self.api_key.expose(), "secret_key": self.secret_key.expose(),
            "former_secret_key": self.former_secret_key.as_ref().map(Secret::expose),
            "former_keys_until": self.former_keys_until.map(|until| until.to_string()),
        });
        key.seal(&json.to_string(), &place(owner, account))
    }

    /// Decrypts what [`Self::seal`] returned; `None` if no key opens it.
    pub fn open(key: &KeyRing, sealed: &[u8], owner: AccountId, account: ProviderAccountId) -> Option<Self> {
        key.open(sealed, &place(owner, account)).and_then(|json| Self::parse(json.expose()))
    }

    /// The account's public key in a browser: MD5 of the user name and the secret key, as the gateway's contract
    /// specifies.
    pub fn field_key(&self) -> String {
        use md5::{Digest as _, Md5};
        let digest = Md5::new().chain_update(&self.username).chain_update(self.secret_key.expose()).finalize();
        foundation::crypto::hex(&digest)
    }
}

/// Where the credentials of a provider account are stored.
pub fn place(owner: AccountId, account: ProviderAccountId) -> Place {
    Place::new("provider_accounts.credentials", owner, account)
}

/// Reads the stored credentials of an account, if there are any.
///
/// # Errors
/// Database errors; [`Error::Internal`] if they cannot be decrypted.
pub async fn read(db: impl PgExecutor<'_>, key: &KeyRing, account: ProviderAccountId) -> Result<Option<Credentials>> {
    let row = sqlx::query!("SELECT account_id, credentials FROM provider_accounts WHERE id = $1", account.uuid())
        .fetch_optional(db)
        .await?;
    let stored = row.and_then(|row| Some((row.account_id, row.credentials?)));
    let Some((owner, sealed)) = stored else { return Ok(None) };
    let unreadable = || Error::internal(format!("the credentials of {account} cannot be decrypted"));
    Credentials::open(key, &sealed, owner, account).map(Some).ok_or_else(unreadable)
}

/// The credentials that this process has cached.
pub(super) struct CredentialsCache {
    db: PgPool,
    key: KeyRing,
    entries: Mutex<HashMap<ProviderAccountId, (Instant, Arc<Credentials>)>>,
}

impl CredentialsCache {
    pub(super) fn new(db: PgPool, key: KeyRing) -> Self {
        Self { db, key, entries: Mutex::default() }
    }

    /// # Errors
    /// [`ProviderError::NotProcessed`] if there are none: nothing can be sent. [`ProviderError::Unknown`] if our
    /// database cannot be read: an earlier request may have arrived, so the operation is looked up and retried later.
    pub(super) async fn of(&self, account: ProviderAccountId) -> std::result::Result<Arc<Credentials>, ProviderError> {
        let missing = |why: String| ProviderError::credentials(format!("the credentials of {account}: {why}"));
        let cached = self.entries.lock().unwrap_or_else(PoisonError::into_inner).get(&account).cloned();
        let read_within = |time: Duration| cached.clone().filter(|(read_at, _)| read_at.elapsed() < time);
        if let Some((_, cached)) = read_within(FRESH_FOR) {
            return Ok(cached);
        }
        let read_at = Instant::now();
        let read = match read(&self.db, &self.key, account).await {
            Ok(read) => Arc::new(read.ok_or_else(|| missing("none are stored".to_owned()))?),
            Err(Error::Database(error)) => {
                let unavailable =
                    || ProviderError::Unknown(format!("the credentials of {account} could not be read: {error}"));
                return read_within(STALE_FOR).map(|(_, cached)| cached).ok_or_else(unavailable);
            }
            Err(undecipherable) => return Err(missing(undecipherable.to_string())),
        };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MAX_ENTRIES {
            entries.clear();
        }
        entries.insert(account, (read_at, Arc::clone(&read)));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foundation::clock::Clock;
    use foundation::crypto::EncryptionKey;
    use foundation::db;
    use testkit::fuzz::{check, json};

    fn key(byte: &str) -> KeyRing {
        KeyRing::new(EncryptionKey::from_hex(&byte.repeat(32)).expect("a key"), vec![])
    }

    /// A cache over its own database, which stores these credentials for an account.
    async fn cache_with(stored: Option<&[u8]>, account: ProviderAccountId) -> (CredentialsCache, testkit::Database) {
        let database = testkit::Database::create().await.expect("a database");
        let pool = db::pool(&Secret::new(database.url().to_owned()), 1, "credentials").expect("its address");
        sqlx::query(
            "WITH merchant AS (INSERT INTO merchants (id, name, created_at) VALUES ($1, 'Shop', now())),
                  account AS (INSERT INTO accounts (id, merchant_id, mode, name, timezone, provider_account_id, created_at)
                              VALUES ($1, $1, 'test', 'Shop', 'UTC', $1, now()))
             INSERT INTO provider_accounts (id, account_id, provider, credentials, created_at)
             VALUES ($1, $1, 'card_gateway', $2, now())",
        )
        .bind(account.uuid())
        .bind(stored)
        .execute(&pool)
        .await
        .expect("written");
        (CredentialsCache::new(pool, key("00")), database)
    }

    fn credentials() -> Credentials {
        let json = r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef"}"#;
        Credentials::parse(json).expect("credentials")
    }

    fn owner(account: ProviderAccountId) -> AccountId {
        AccountId::from_uuid(account.uuid())
    }

    fn sealed_under(digits: &str, account: ProviderAccountId) -> Vec<u8> {
        credentials().seal(&key(digits), owner(account), account)
    }

    #[tokio::test]
    async fn a_database_outage_uses_the_cache_or_is_unknown() {
        let account = ProviderAccountId::new(Clock::system().now());
        let (cache, _database) = cache_with(Some(&sealed_under("00", account)), account).await;
        assert_eq!(cache.of(account).await.expect("read").username, "shop");
        cache.db.close().await;
        let aged = |age: Duration| {
            let mut entries = cache.entries.lock().expect("no panic while locked");
            let (read_at, _) = entries.get_mut(&account).expect("cached");
            *read_at = Instant::now().checked_sub(age).expect("the machine runs for longer");
        };
        aged(FRESH_FOR);
        assert_eq!(cache.of(account).await.expect("cached").username, "shop");
        aged(STALE_FOR);
        assert!(matches!(cache.of(account).await, Err(ProviderError::Unknown(_))), "too long ago");
        let other = ProviderAccountId::new(Clock::system().now());
        assert!(matches!(cache.of(other).await, Err(ProviderError::Unknown(_))), "never read");
    }

    #[tokio::test]
    async fn missing_or_undecryptable_credentials_are_not_processed() {
        let account = ProviderAccountId::new(Clock::system().now());
        let (missing, _first) = cache_with(None, account).await;
        assert!(matches!(missing.of(account).await, Err(ProviderError::NotProcessed { .. })));
        let (unreadable, _second) = cache_with(Some(&sealed_under("11", account)), account).await;
        assert!(matches!(unreadable.of(account).await, Err(ProviderError::NotProcessed { .. })));
    }

    #[test]
    fn incomplete_credentials_are_rejected() {
        let json = r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef","app_key":"x"}"#;
        let parsed = Credentials::parse(json).expect("credentials");
        assert_eq!(format!("{parsed:?}").matches("[secret]").count(), 2);
        // printf 'shop0123456789abcdef' | md5sum
        assert_eq!(parsed.field_key(), "d8b95871952c9e2523bf3a1b696f3dbc");
        let until = r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef","former_keys_until":"soon"}"#;
        for broken in ["", "{}", "[]", r#"{"username":"shop","api_key":"k","secret_key":"short"}"#, until] {
            assert!(Credentials::parse(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn only_the_previous_secret_key_is_kept() {
        let with = |secret: &str, until: &str| {
            let json = serde_json::json!({
                "username": "shop", "api_key": "k", "secret_key": secret.repeat(16), "former_keys_until": until,
            });
            Credentials::parse(&json.to_string()).expect("credentials")
        };
        let former_keys = |credentials: &Credentials| {
            let former = credentials.former_secret_key.as_ref().map(|secret| secret.expose()[..1].to_owned());
            (former, credentials.former_keys_until.map(|until| until.to_string()))
        };
        let account = ProviderAccountId::new(Clock::system().now());
        let stored = |credentials: &Credentials| {
            let sealed = credentials.seal(&key("00"), owner(account), account);
            let json = key("00").open(&sealed, &place(owner(account), account)).expect("its own");
            Credentials::parse(json.expose()).expect("credentials")
        };
        let (one, two) = ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z");
        let second = stored(&with("b", one).replacing(with("a", two)));
        assert_eq!(former_keys(&second), (Some("a".to_owned()), Some(one.to_owned())));
        let again = stored(&with("b", two).replacing(second.clone()));
        assert_eq!(former_keys(&again), former_keys(&second), "the same ones");
        let third = stored(&with("c", two).replacing(second));
        assert_eq!(former_keys(&third), (Some("b".to_owned()), Some(two.to_owned())));
    }

    #[test]
    fn any_input_is_valid_or_rejected_and_secrets_are_not_displayed() {
        let valid = serde_json::json!({"username": "shop", "api_key": "canary-api", "secret_key": "0123456789abcdef"});
        check(json(valid), |text| {
            let Ok(text) = String::from_utf8(text.0) else { return };
            let Some(read) = Credentials::parse(&text) else { return };
            assert!(
                !read.username.is_empty() && !read.api_key.expose().is_empty() && read.secret_key.expose().len() == 16
            );
            let debug = format!("{read:?}");
            assert_eq!(debug.matches("[secret]").count(), 2, "{debug}");
            assert!(read.username.contains("canary") || !debug.contains("canary"), "{debug}");
        });
    }
}
