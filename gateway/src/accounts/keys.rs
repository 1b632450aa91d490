//! The keys of accounts: how they are created, stored, replaced and checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foundation::crypto::{Pepper, Secret, random_hex, random_u32};
use md5::{Digest, Md5};
use sqlx::{PgConnection, PgPool};

use super::{Account, find, is_storable};
use crate::cards::KeyRing;
use crate::failure::{Code, Result};
use crate::id::AccountId;

const API_KEY_PREFIX: &str = "gwk_";

/// The keys of an account, displayed once.
#[derive(Debug)]
pub struct Keys {
    /// Authenticates every operation.
    pub api_key: Secret<String>,
    /// 16 characters under which callers may encrypt card numbers.
    pub secret_key: Secret<String>,
    /// Identifies the account in browser scripts. Not a secret.
    pub app_key: String,
}

/// How an API key was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashForm {
    /// For its account.
    Bound,
    /// Alone, as the former version did.
    Former,
}

/// The keys that hash and encrypt stored data.
#[derive(Clone)]
pub struct CryptoKeys {
    /// For hashes of API keys, proxy numbers and card fingerprints.
    pub pepper: Pepper,
    /// Encrypt secret keys and card numbers.
    pub card_keys: KeyRing,
    /// Whether new hashes of API keys are bound to their account. Copies share it.
    binds_key_hashes: Arc<AtomicBool>,
}

impl CryptoKeys {
    pub fn new(pepper: Pepper, card_keys: KeyRing) -> Self {
        Self { pepper, card_keys, binds_key_hashes: Arc::default() }
    }

    /// Reads whether new hashes of API keys are bound to their account: the former version does not know such hashes.
    ///
    /// # Errors
    /// Database errors.
    pub async fn read_binding(&self, db: &PgPool) -> Result<(), sqlx::Error> {
        self.binds_key_hashes.store(are_key_hashes_bound(db).await?, Ordering::Relaxed);
        Ok(())
    }

    fn hash_of(&self, id: AccountId, api_key: &str) -> [u8; 32] {
        match self.binds_key_hashes.load(Ordering::Relaxed) {
            true => self.pepper.hash(&bound_key(id, api_key)),
            false => self.pepper.hash(api_key),
        }
    }

    /// The form in which this is the hash of the key, if it is.
    fn form_of(&self, id: AccountId, api_key: &str, hash: &[u8]) -> Option<HashForm> {
        if self.pepper.matches(&bound_key(id, api_key), hash) {
            return Some(HashForm::Bound);
        }
        // Other texts are hashed with the same pepper, and some of their hashes are public.
        let former = api_key.starts_with(API_KEY_PREFIX) && self.pepper.matches(api_key, hash);
        former.then_some(HashForm::Former)
    }

    /// Hashes and encrypts an account's keys and passes them to `write`.
    pub(super) async fn write_sealed(
        &self,
        keys: &Keys,
        id: AccountId,
        write: impl AsyncFnOnce(&SealedKeys<'_>) -> Result<(), sqlx::Error>,
    ) -> Result<(), sqlx::Error> {
        write(&SealedKeys {
            api_key_hash: &self.hash_of(id, keys.api_key.expose()),
            pepper_id: &self.pepper.id(),
            secret_key_sealed: &self.card_keys.seal(keys.secret_key.expose(), &secret_key_context(id)),
            app_key: &keys.app_key,
        })
        .await
    }
}

/// An account's keys in the form in which they are stored.
pub(super) struct SealedKeys<'a> {
    pub(super) api_key_hash: &'a [u8],
    pub(super) pepper_id: &'a [u8],
    pub(super) secret_key_sealed: &'a [u8],
    pub(super) app_key: &'a str,
}

/// Gives an account new keys. The current ones stay valid for `grace`; keys from an earlier rotation expire at once.
/// `None` if the account does not exist.
///
/// # Errors
/// Database errors.
pub async fn rotate_keys(
    db: &mut PgConnection,
    crypto: &CryptoKeys,
    username: &str,
    grace: Duration,
) -> Result<Option<Keys>, sqlx::Error> {
    let Some(id) = lock(&mut *db, username).await? else { return Ok(None) };
    match grace.is_zero() {
        true => delete_former_keys(&mut *db, id).await?,
        false => save_former_keys(&mut *db, id, grace).await?,
    }
    let keys = new_keys(username);
    crypto.write_sealed(&keys, id, async |sealed| set_keys(db, id, sealed).await).await?;
    Ok(Some(keys))
}

/// Authenticates a caller: 01 is reported before 09.
///
/// # Errors
/// 01 for a missing or unknown user name, 09 for a missing or wrong key.
pub async fn authenticate(
    db: &PgPool,
    crypto: &CryptoKeys,
    username: Option<&str>,
    api_key: Option<&str>,
) -> Result<Account> {
    let username = username.filter(|name| is_storable(name)).ok_or(Code::Username.refuse())?;
    let account = find(db, username).await?.ok_or(Code::Username.refuse())?;
    let api_key = api_key.ok_or(Code::ApiKey.refuse())?;
    if let Some(form) = crypto.form_of(account.id, api_key, &account.api_key_hash) {
        let is_outdated = form == HashForm::Former && crypto.binds_key_hashes.load(Ordering::Relaxed);
        if is_outdated || account.pepper_id.is_none() {
            let new =
                if is_outdated { crypto.hash_of(account.id, api_key).to_vec() } else { account.api_key_hash.clone() };
            rehash(db, account.id, &account.api_key_hash, &new, &crypto.pepper.id()).await?;
        }
        return Ok(account);
    }
    let former = account.former_api_key_hash.as_ref();
    let former = former.and_then(|hash| crypto.form_of(account.id, api_key, hash));
    if former.is_some() { Ok(account) } else { Err(Code::ApiKey.refuse()) }
}

/// Makes new hashes of API keys bound to their account, in processes that start from now on. Hashes of the former version
/// are replaced when their key is used.
///
/// # Errors
/// Database errors.
pub async fn bind_key_hashes(db: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE gateway.key_hashes SET bound = true WHERE NOT bound").execute(db).await?;
    Ok(())
}

/// What is hashed of an API key, so that the hash is of use for nothing else and in no other account.
fn bound_key(id: AccountId, api_key: &str) -> String {
    format!("api_key:{}:{api_key}", id.uuid())
}

/// The encryption context of an account's secret key.
pub fn secret_key_context(id: AccountId) -> String {
    format!("secret_key:{}", id.uuid())
}

pub(super) fn new_keys(username: &str) -> Keys {
    let api_key = Secret::new(format!("{API_KEY_PREFIX}{}", random_hex(32)));
    let secret_key = Secret::new(random_text(16));
    let app_key = app_key(username, secret_key.expose());
    Keys { api_key, secret_key, app_key }
}

/// MD5 of the user name and the secret key, as the contract defines it. It identifies the account but proves nothing.
fn app_key(username: &str, secret_key: &str) -> String {
    foundation::crypto::hex(&Md5::digest(format!("{username}{secret_key}")))
}

/// Uniformly distributed characters of a 64-character alphabet.
fn random_text(count: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..count).map(|_| char::from(ALPHABET[(random_u32() % 64) as usize])).collect()
}

/// Locks an account's keys until the transaction ends. `None` if the account does not exist.
async fn lock(db: &mut PgConnection, username: &str) -> Result<Option<AccountId>, sqlx::Error> {
    let id = sqlx::query_scalar!("SELECT id FROM gateway.accounts WHERE username = $1 FOR NO KEY UPDATE", username);
    Ok(id.fetch_optional(db).await?.map(AccountId::from))
}

/// Keeps a locked account's current keys valid for `grace` as its former keys, replacing earlier former keys.
async fn save_former_keys(db: &mut PgConnection, id: AccountId, grace: Duration) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.former_keys (account_id, api_key_hash, secret_key_sealed, app_key, until)
         SELECT id, api_key_hash, secret_key_sealed, app_key, clock_timestamp() + make_interval(secs => $2)
         FROM gateway.accounts WHERE id = $1
         ON CONFLICT (account_id) DO UPDATE SET api_key_hash = EXCLUDED.api_key_hash,
             secret_key_sealed = EXCLUDED.secret_key_sealed, app_key = EXCLUDED.app_key, until = EXCLUDED.until",
        id.uuid(),
        grace.as_secs_f64(),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Expires the former keys of a locked account.
async fn delete_former_keys(db: &mut PgConnection, id: AccountId) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM gateway.former_keys WHERE account_id = $1", id.uuid()).execute(db).await?;
    Ok(())
}

async fn set_keys(db: &mut PgConnection, id: AccountId, keys: &SealedKeys<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.accounts SET api_key_hash = $2, pepper_id = $3, secret_key_sealed = $4, app_key = $5 WHERE id = $1",
        id.uuid(),
        keys.api_key_hash,
        keys.pepper_id,
        keys.secret_key_sealed,
        keys.app_key,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Replaces the hash of a key, and records its pepper.
async fn rehash(
    db: &PgPool,
    id: AccountId,
    former_hash: &[u8],
    new_hash: &[u8],
    pepper_id: &[u8],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.accounts SET api_key_hash = $3, pepper_id = $4 WHERE id = $1 AND api_key_hash = $2",
        id.uuid(),
        former_hash,
        new_hash,
        pepper_id,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Whether new hashes of API keys are bound to their account.
async fn are_key_hashes_bound(db: &PgPool) -> Result<bool, sqlx::Error> {
    let query = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM gateway.key_hashes WHERE bound) AS "bound!""#);
    query.fetch_one(db).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_key_is_the_md5_of_name_and_secret() {
        // printf %s shop0123456789abcdef | md5sum
        assert_eq!(app_key("shop", "0123456789abcdef"), "d8b95871952c9e2523bf3a1b696f3dbc");
        let keys = new_keys("shop");
        assert_eq!(keys.secret_key.expose().len(), 16);
        assert_eq!(keys.app_key, app_key("shop", keys.secret_key.expose()));
        assert_ne!(keys.api_key.expose(), new_keys("shop").api_key.expose());
    }
}
