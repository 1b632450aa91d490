//! Accounts: credentials and settings of merchants.

mod fee;
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foundation::calendar::TimeZone;
use foundation::crypto::{Pepper, Secret, random_hex, random_u32};
use foundation::time::Timestamp;
use md5::{Digest, Md5};
use sqlx::{PgConnection, PgPool};

pub use fee::{Fee, HUNDRED_PERCENT};
pub use store::{find, list, set};

use crate::cards::{Brand, KeyRing};
use crate::failure::{Code, Result};
use crate::id::AccountId;

/// The currencies of the gateway; an account may accept fewer. All have two decimal places.
pub const CURRENCIES: [&str; 11] = ["USD", "EUR", "GBP", "CAD", "AUD", "NZD", "AED", "DKK", "MXN", "SEK", "CHF"];

const API_KEY_PREFIX: &str = "gwk_";

/// An account as stored.
#[derive(Clone)]
pub struct Account {
    pub id: AccountId,
    pub username: String,
    /// Displayed to cardholders.
    pub name: String,
    api_key_hash: Vec<u8>,
    secret_key_sealed: Vec<u8>,
    /// Identifies the account in browser scripts. Not a secret.
    pub app_key: String,
    /// The pepper of the API key's hash, if known.
    pepper_id: Option<Vec<u8>>,
    former_api_key_hash: Option<Vec<u8>>,
    former_secret_key_sealed: Option<Vec<u8>>,
    former_app_key: Option<String>,
    /// When the keys from before the last rotation expire; `None` if they have.
    pub former_keys_until: Option<Timestamp>,
    pub time_zone: TimeZone,
    pub currencies: Vec<String>,
    /// Brands that the account's processors do not accept (code 11).
    pub refused_brands: Vec<String>,
    /// Whether a sale requires the security code.
    pub cvv_required: bool,
    /// Whether cards may be challenged.
    pub three_ds: bool,
    /// Whether cards that cannot be authenticated are declined.
    pub deny_unauthenticated: bool,
    /// Code 17: largest transaction, in minor units.
    pub sale_limit: i64,
    /// Code 18: volume per month and currency, in minor units.
    pub monthly_limit: i64,
    /// Code 19: transactions per day.
    pub daily_transactions: i32,
    /// Code 20: transactions per hour from one address.
    pub hourly_per_address: i32,
    fee_percent: i32,
    fee_fixed: i64,
    /// The merchant's address for receipts.
    pub contact_email: Option<String>,
    /// Origins that may frame the card field.
    pub allowed_origins: Vec<String>,
    pub created_at: Timestamp,
}

/// Settings to be changed; `None` leaves a setting as it is.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Displayed to cardholders.
    pub name: Option<String>,
    pub time_zone: Option<TimeZone>,
    /// A subset of [`CURRENCIES`].
    pub currencies: Option<Vec<String>>,
    /// Brands that the processors do not accept.
    pub refused_brands: Option<Vec<Brand>>,
    pub cvv_required: Option<bool>,
    pub three_ds: Option<bool>,
    pub deny_unauthenticated: Option<bool>,
    /// Code 17, in minor units.
    pub sale_limit: Option<i64>,
    /// Code 18, in minor units.
    pub monthly_limit: Option<i64>,
    /// Code 19.
    pub daily_transactions: Option<i32>,
    /// Code 20.
    pub hourly_per_address: Option<i32>,
    /// Convenience fee in basis points.
    pub fee_percent: Option<i32>,
    /// Convenience fee in minor units.
    pub fee_fixed: Option<i64>,
    /// The merchant's address for receipts; an empty text removes it.
    pub contact_email: Option<String>,
    pub allowed_origins: Option<Vec<String>>,
}

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
        self.binds_key_hashes.store(store::are_key_hashes_bound(db).await?, Ordering::Relaxed);
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
    async fn write_sealed(
        &self,
        keys: &Keys,
        id: AccountId,
        write: impl AsyncFnOnce(&store::SealedKeys<'_>) -> Result<(), sqlx::Error>,
    ) -> Result<(), sqlx::Error> {
        write(&store::SealedKeys {
            api_key_hash: &self.hash_of(id, keys.api_key.expose()),
            pepper_id: &self.pepper.id(),
            secret_key_sealed: &self.card_keys.seal(keys.secret_key.expose(), &secret_key_context(id)),
            app_key: &keys.app_key,
        })
        .await
    }
}

/// Creates an account and its keys.
///
/// # Errors
/// The user name is taken or malformed, or another database error.
pub async fn create(
    db: &mut PgConnection,
    crypto: &CryptoKeys,
    username: &str,
    settings: &Settings,
    now: Timestamp,
) -> Result<Keys, sqlx::Error> {
    let id = AccountId::new(now);
    let keys = new_keys(username);
    crypto.write_sealed(&keys, id, async |sealed| store::insert(db, id, username, sealed, now).await).await?;
    store::set(db, username, settings).await?;
    Ok(keys)
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
    let Some(id) = store::lock(&mut *db, username).await? else { return Ok(None) };
    match grace.is_zero() {
        true => store::delete_former_keys(&mut *db, id).await?,
        false => store::save_former_keys(&mut *db, id, grace).await?,
    }
    let keys = new_keys(username);
    crypto.write_sealed(&keys, id, async |sealed| store::set_keys(db, id, sealed).await).await?;
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
    let account = store::find(db, username).await?.ok_or(Code::Username.refuse())?;
    let api_key = api_key.ok_or(Code::ApiKey.refuse())?;
    if let Some(form) = crypto.form_of(account.id, api_key, &account.api_key_hash) {
        let is_outdated = form == HashForm::Former && crypto.binds_key_hashes.load(Ordering::Relaxed);
        if is_outdated || account.pepper_id.is_none() {
            let new =
                if is_outdated { crypto.hash_of(account.id, api_key).to_vec() } else { account.api_key_hash.clone() };
            store::rehash(db, account.id, &account.api_key_hash, &new, &crypto.pepper.id()).await?;
        }
        return Ok(account);
    }
    let former = account.former_api_key_hash.as_ref();
    let former = former.and_then(|hash| crypto.form_of(account.id, api_key, hash));
    if former.is_some() { Ok(account) } else { Err(Code::ApiKey.refuse()) }
}

/// The account of a browser script. This is no authentication: it gives access only to public operations.
///
/// # Errors
/// 01 for an unknown app key.
pub async fn by_app_key(db: &PgPool, app_key: &str) -> Result<Account> {
    let account = if is_storable(app_key) { store::find_by_app_key(db, app_key).await? } else { None };
    account.ok_or_else(|| Code::Username.because("app_key"))
}

/// Postgres cannot store or query a text with a NUL, so no account is named by one.
fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

impl Account {
    /// The secret keys under which callers may encrypt card numbers: the current one and an unexpired former one. Keys
    /// that cannot be decrypted are left out.
    pub fn secret_keys(&self, card_keys: &KeyRing) -> impl Iterator<Item = Secret<String>> {
        let sealed = std::iter::once(&self.secret_key_sealed).chain(&self.former_secret_key_sealed);
        sealed.filter_map(|sealed| card_keys.open(sealed, &secret_key_context(self.id)))
    }

    /// The secret key that belongs to this app key, current or former, so that the page's server can verify tokens with
    /// it; `None` if it cannot be decrypted.
    pub fn secret_key_for(&self, app_key: &str, card_keys: &KeyRing) -> Option<Secret<String>> {
        let former = self.former_secret_key_sealed.as_ref().filter(|_| self.former_app_key.as_deref() == Some(app_key));
        card_keys.open(former.unwrap_or(&self.secret_key_sealed), &secret_key_context(self.id))
    }

    /// Whether this is the account's current app key or an unexpired former one.
    pub fn has_app_key(&self, app_key: &str) -> bool {
        self.app_key == app_key || self.former_app_key.as_deref() == Some(app_key)
    }

    pub const fn fee(&self) -> Fee {
        Fee { percent: self.fee_percent, fixed: self.fee_fixed }
    }

    pub fn accepts_currency(&self, currency: &str) -> bool {
        self.currencies.iter().any(|allowed| allowed == currency)
    }

    /// Whether no processor of the account accepts the brand.
    pub fn refuses_brand(&self, brand: Brand) -> bool {
        self.refused_brands.iter().any(|refused| refused == brand.name())
    }
}

/// Makes new hashes of API keys bound to their account, in processes that start from now on. Hashes of the former version
/// are replaced when their key is used.
///
/// # Errors
/// Database errors.
pub async fn bind_key_hashes(db: &PgPool) -> Result<(), sqlx::Error> {
    store::bind_key_hashes(db).await
}

/// What is hashed of an API key, so that the hash is of use for nothing else and in no other account.
fn bound_key(id: AccountId, api_key: &str) -> String {
    format!("api_key:{}:{api_key}", id.uuid())
}

/// The encryption context of an account's secret key.
pub fn secret_key_context(id: AccountId) -> String {
    format!("secret_key:{}", id.uuid())
}

fn new_keys(username: &str) -> Keys {
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

    #[test]
    fn every_currency_has_two_places() {
        for code in CURRENCIES {
            assert_eq!(code.parse::<foundation::money::Currency>().expect(code).exponent(), 2, "{code}");
        }
    }
}
