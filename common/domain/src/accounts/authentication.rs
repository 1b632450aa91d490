//! Authentication by API key. Keys are cached for a short time, so that frequent requests do not query the database
//! each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgPool;

use super::keys::key_id;
use super::rehash::{AttemptThrottle, rehash};
use super::usage::UsageRecorder;
use super::{AccountTime, Caller, KeyKind, Mode, Rate};
use foundation::crypto::Peppers;
use foundation::id::KeyId;
use providers::capabilities::{Connected, Grants, Permission};

/// Maximum number of cached keys; the cache is cleared when it is full.
const MAX_KEYS: usize = 10_000;

/// Why a key was rejected.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Malformed, unknown or revoked: the response does not distinguish them.
    #[error("the API key is not valid")]
    Refused,
    /// Postgres failed, so the key could not be checked.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
}

/// The API keys of all accounts, with the cache of this process.
pub struct Keys {
    db: PgPool,
    peppers: Peppers,
    cache_ttl: Duration,
    cache: Mutex<HashMap<KeyId, CachedKey>>,
    rehash_throttle: AttemptThrottle,
    usage: UsageRecorder,
}

#[derive(Clone)]
struct CachedKey {
    read_at: Instant,
    hash: Arc<[u8]>,
    /// The pepper of the hash, if known.
    pepper_id: Option<[u8; 4]>,
    caller: Arc<Caller>,
}

impl Keys {
    /// Creates the cache. A key may still be accepted for `cache_ttl` after its revocation. Requires a runtime: a task
    /// records the use of keys.
    pub fn new(db: PgPool, peppers: Peppers, cache_ttl: Duration) -> Self {
        let usage = UsageRecorder::new(db.clone());
        Self { db, peppers, cache_ttl, cache: Mutex::default(), rehash_throttle: AttemptThrottle::default(), usage }
    }

    /// The time after which every process has read a key again.
    pub const fn cache_ttl(&self) -> Duration {
        self.cache_ttl
    }

    /// Whether this process has verified this secret key at any time and has not seen it rejected since. It may have
    /// been revoked: [`Self::authenticate`] decides. Publishable keys are public, so they are not considered.
    pub fn has_verified_secret(&self, text: &str) -> bool {
        let hash = key_id(text).and_then(|id| {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            let cached = cache.get(&id).filter(|cached| cached.caller.key_kind == KeyKind::Secret);
            cached.map(|cached| Arc::clone(&cached.hash))
        });
        hash.is_some_and(|hash| self.peppers.match_any(text, &hash))
    }

    /// Records that a request with this key was accepted, asynchronously and at most once a minute
    /// (`api_keys.last_used_at`).
    pub fn record_use(&self, key: KeyId) {
        self.usage.record(key);
    }

    /// Authenticates a key, with at most one round trip, and sometimes another while a pepper is rotated.
    ///
    /// # Errors
    /// [`AuthError::Refused`], whether the key is malformed, unknown or revoked.
    pub async fn authenticate(&self, text: &str) -> Result<Arc<Caller>, AuthError> {
        let id = key_id(text).ok_or(AuthError::Refused)?;
        let key = match self.cached(id) {
            Some(key) => key,
            None => self.look_up(id).await?,
        };
        // The hash covers the kind and mode in the key's text.
        if !self.peppers.match_any(text, &key.hash) {
            return Err(AuthError::Refused);
        }
        if self.peppers.is_rotating() && key.pepper_id != Some(self.peppers.current().id()) {
            self.rehash_current(id, text, &key).await;
        }
        Ok(key.caller)
    }

    /// The caller as which a signed-in user acts in an account, with these entitlements.
    ///
    /// # Errors
    /// [`AuthError::Refused`] if there is no such key.
    pub async fn caller_of_user(&self, key: KeyId, entitlements: Vec<String>) -> Result<Caller, AuthError> {
        let mut caller = read(&self.db, key).await?.ok_or(AuthError::Refused)?.caller;
        caller.grants.entitlements = Some(entitlements);
        Ok(caller)
    }

    /// Moves the key's hash to the current pepper, now that its text is known. The request continues even if this
    /// fails.
    async fn rehash_current(&self, id: KeyId, text: &str, key: &CachedKey) {
        if !self.rehash_throttle.begin(id) {
            return;
        }
        match rehash(&self.db, &self.peppers, id, text, &key.hash).await {
            // Another process has moved it, or the key no longer exists.
            Ok(false) => {}
            Ok(true) => {
                let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(entry) = cache.get_mut(&id).filter(|entry| entry.hash == key.hash) {
                    entry.hash = self.peppers.current().hash(text).as_slice().into();
                    entry.pepper_id = Some(self.peppers.current().id());
                }
            }
            Err(error) => {
                tracing::warn!(key = %id, %error, "failed to hash a key with the current pepper; it keeps the former one")
            }
        }
    }

    fn cached(&self, id: KeyId) -> Option<CachedKey> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(&id).filter(|cached| cached.read_at.elapsed() < self.cache_ttl).cloned()
    }

    async fn look_up(&self, id: KeyId) -> Result<CachedKey, AuthError> {
        // Measured before the query, so that a revocation during the query is noticed in time.
        let read_at = Instant::now();
        let stored = read(&self.db, id).await?;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(StoredKey { hash, pepper_id, caller }) = stored else {
            cache.remove(&id);
            return Err(AuthError::Refused);
        };
        let key = CachedKey { read_at, hash: hash.into(), pepper_id, caller: Arc::new(caller) };
        if cache.len() >= MAX_KEYS {
            cache.clear();
        }
        cache.insert(id, key.clone());
        Ok(key)
    }
}

/// A key as stored.
struct StoredKey {
    hash: Vec<u8>,
    pepper_id: Option<[u8; 4]>,
    caller: Caller,
}

/// Reads the hash and the account of a key that is neither revoked nor expired.
async fn read(db: &PgPool, id: KeyId) -> Result<Option<StoredKey>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT k.key_hash, k.pepper_id, k.kind, k.entitlements, k.signing_secret, k.account_id, a.mode, a.provider_account_id, a.allowed_origins,
                  a.modifiers, a.partial_capture, a.partial_refund, a.rate_limit, a.burst, p.provider, p.currencies, p.unsupported,
                  p.provider = 'mock' OR p.credentials IS NOT NULL AS "connected!",
                  EXISTS (SELECT 1 FROM provider_accounts o
                          WHERE o.account_id = k.account_id AND (o.provider = 'mock' OR o.credentials IS NOT NULL)) AS "any_connected!",
                  EXISTS (SELECT 1 FROM test_clocks c WHERE c.account_id = k.account_id) AS "has_clock!"
           FROM api_keys k
           JOIN accounts a ON a.id = k.account_id
           JOIN provider_accounts p ON p.id = a.provider_account_id
           WHERE k.id = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())"#,
        id.uuid(),
    )
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let unsupported =
        row.provider.unsupported().iter().map(|operation| operation.name().to_owned()).chain(row.unsupported).collect();
    let settings = [
        (row.partial_capture, Permission::PaymentsPartialCapture),
        (row.partial_refund, Permission::PaymentsPartialRefund),
    ];
    let forbidden = settings.into_iter().filter_map(|(allowed, operation)| (!allowed).then_some(operation));
    let test_only = Permission::ALL.iter().copied().filter(|operation| operation.is_test_only());
    let forbidden = forbidden.chain(test_only.filter(|_| row.mode == Mode::Live)).collect();
    let connected = Connected { current: row.connected, any: row.any_connected };
    let caller = Caller {
        key_id: id,
        key_kind: row.kind,
        account_id: row.account_id,
        mode: row.mode,
        time: AccountTime::new(row.account_id, row.has_clock),
        provider_account_id: row.provider_account_id,
        provider: row.provider,
        currencies: row.currencies,
        grants: Grants { entitlements: row.entitlements, unsupported, forbidden, connected },
        allowed_origins: row.allowed_origins,
        rate: row.rate_limit.zip(row.burst).map_or(Rate::default_of(row.mode), |(per_second, burst)| Rate {
            per_second: per_second.unsigned_abs(),
            burst: burst.unsigned_abs(),
        }),
        signing_secret: row.signing_secret,
        modifiers: row.modifiers,
    };
    let pepper_id = row.pepper_id.and_then(|id| id.try_into().ok());
    Ok(Some(StoredKey { hash: row.key_hash, pepper_id, caller }))
}
