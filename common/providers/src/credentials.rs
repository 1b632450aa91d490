//! The credentials of our accounts at providers. They are encrypted at rest; a process caches them for a short time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::{PgExecutor, PgPool};

use crate::ProviderError;
use foundation::crypto::{KeyRing, Place};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, ProviderAccountId};

/// How long a cached entry is used without a query.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// How long a cached entry is used while the database is unavailable. Credentials that were changed in the meantime
/// would be refused, which fails an operation's first request.
const STALE_FOR: Duration = Duration::from_secs(10 * 60);
/// Maximum number of cached accounts; the cache is cleared when it is full.
const MAX_ENTRIES: usize = 10_000;

/// Credentials as they are stored: a JSON object, encrypted.
pub trait Stored: Sized + Send + Sync + 'static {
    /// Parses the JSON object; `None` if it is not complete.
    fn parse(json: &str) -> Option<Self>;
}

/// Where the credentials of a provider account are stored.
pub fn place(owner: AccountId, account: ProviderAccountId) -> Place {
    Place::new("provider_accounts.credentials", owner, account)
}

/// Reads the stored credentials of an account, if there are any.
///
/// # Errors
/// Database errors; [`Error::Internal`] if they cannot be decrypted.
pub async fn read<C: Stored>(db: impl PgExecutor<'_>, key: &KeyRing, account: ProviderAccountId) -> Result<Option<C>> {
    let row = sqlx::query!("SELECT account_id, credentials FROM provider_accounts WHERE id = $1", account.uuid())
        .fetch_optional(db)
        .await?;
    let stored = row.and_then(|row| Some((row.account_id, row.credentials?)));
    let Some((owner, sealed)) = stored else { return Ok(None) };
    let unreadable = || Error::internal(format!("the credentials of {account} cannot be decrypted"));
    let json = key.open(&sealed, &place(owner, account)).ok_or_else(unreadable)?;
    C::parse(json.expose()).map(Some).ok_or_else(unreadable)
}

/// The credentials that this process has cached.
pub(crate) struct CredentialsCache<C> {
    db: PgPool,
    key: KeyRing,
    entries: Mutex<HashMap<ProviderAccountId, (Instant, Arc<C>)>>,
}

impl<C: Stored> CredentialsCache<C> {
    pub(crate) fn new(db: PgPool, key: KeyRing) -> Self {
        Self { db, key, entries: Mutex::default() }
    }

    /// # Errors
    /// [`ProviderError::NotProcessed`] if there are none: nothing can be sent. [`ProviderError::Unknown`] if our
    /// database cannot be read: an earlier request may have arrived, so the operation is looked up and retried later.
    pub(crate) async fn of(&self, account: ProviderAccountId) -> std::result::Result<Arc<C>, ProviderError> {
        let missing = |why: String| ProviderError::credentials(format!("the credentials of {account}: {why}"));
        let cached = self.entries.lock().unwrap_or_else(PoisonError::into_inner).get(&account).cloned();
        let read_within = |time: Duration| cached.clone().filter(|(read_at, _)| read_at.elapsed() < time);
        if let Some((_, cached)) = read_within(FRESH_FOR) {
            return Ok(cached);
        }
        let read_at = Instant::now();
        let read = match read::<C>(&self.db, &self.key, account).await {
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
    use crate::ProviderKind;
    use crate::card_gateway::Credentials;
    use crate::contract::add_account;
    use foundation::clock::Clock;
    use foundation::crypto::{EncryptionKey, Secret};
    use foundation::db;

    fn key(byte: &str) -> KeyRing {
        KeyRing::new(EncryptionKey::from_hex(&byte.repeat(32)).expect("a key"), vec![])
    }

    /// A cache over its own database, which stores these credentials for an account.
    async fn cache_with(
        stored: Option<&[u8]>,
        account: ProviderAccountId,
    ) -> (CredentialsCache<Credentials>, testkit::Database) {
        let database = testkit::Database::create().await.expect("a database");
        let pool = db::pool(&Secret::new(database.url().to_owned()), 1, "credentials").expect("its address");
        add_account(&pool, account, ProviderKind::CardGateway, stored).await;
        (CredentialsCache::new(pool, key("00")), database)
    }

    fn sealed_under(digits: &str, account: ProviderAccountId) -> Vec<u8> {
        let json = r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef"}"#;
        let credentials = Credentials::parse(json).expect("credentials");
        credentials.seal(&key(digits), AccountId::from_uuid(account.uuid()), account)
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
}
