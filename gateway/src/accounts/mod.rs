//! Accounts: who may use the gateway, and what the operator has set for them.

mod fee;
mod shown;
mod store;

use std::time::Duration;

use common::calendar::TimeZone;
use common::crypto::{Pepper, Secret, random_hex, random_u32};
use common::time::Timestamp;
use md5::{Digest, Md5};
use sqlx::{PgConnection, PgPool};

pub use fee::{Fee, WHOLE};
pub use shown::show;

use crate::cards::{Brand, KeyRing};
use crate::failure::{Code, Result};
use crate::id::AccountId;

/// The currencies of the gateway; an account has these or fewer. All have two places.
pub const CURRENCIES: [&str; 11] = ["USD", "EUR", "GBP", "CAD", "AUD", "NZD", "AED", "DKK", "MXN", "SEK", "CHF"];

/// An account as stored.
#[derive(Clone)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// By which callers name it.
    pub username: String,
    /// Shown to cardholders.
    pub name: String,
    api_key_hash: Vec<u8>,
    secret_key_sealed: Vec<u8>,
    /// By which scripts in a browser name it.
    pub app_key: String,
    /// Which pepper made the hash of the API key, where that is known.
    pepper_id: Option<Vec<u8>>,
    former_api_key_hash: Option<Vec<u8>>,
    former_secret_key_sealed: Option<Vec<u8>>,
    former_app_key: Option<String>,
    /// Until when the keys from before the last rotation hold beside the current ones; none if they do not.
    pub former_keys_until: Option<Timestamp>,
    /// Its days and months are those of this zone.
    pub time_zone: TimeZone,
    /// What it may be paid in.
    pub currencies: Vec<String>,
    /// Brands that no processor takes for it.
    pub refused_brands: Vec<String>,
    /// Whether a sale asks for the security code.
    pub cvv_required: bool,
    /// Whether cards may be challenged.
    pub three_ds: bool,
    /// Whether a card that cannot be authenticated is declined.
    pub deny_unauthenticated: bool,
    /// Code 17: hundredths of one transaction.
    pub sale_limit: i64,
    /// Code 18: hundredths of a month, in each currency.
    pub monthly_limit: i64,
    /// Code 19: transactions of a day.
    pub daily_transactions: i32,
    /// Code 20: transactions of an hour from one address.
    pub hourly_per_address: i32,
    fee_percent: i32,
    fee_fixed: i64,
    /// Where the merchant's own receipts go.
    pub contact_email: Option<String>,
    /// Whose pages may frame its capture field.
    pub allowed_origins: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What the operator sets; what is none stays as it is.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Shown to cardholders.
    pub name: Option<String>,
    /// Name of a zone.
    pub time_zone: Option<TimeZone>,
    /// Some of [`CURRENCIES`].
    pub currencies: Option<Vec<String>>,
    /// Brands that no processor takes.
    pub refused_brands: Option<Vec<Brand>>,
    /// Whether a sale asks for the security code.
    pub cvv_required: Option<bool>,
    /// Whether cards may be challenged.
    pub three_ds: Option<bool>,
    /// Whether a card that cannot be authenticated is declined.
    pub deny_unauthenticated: Option<bool>,
    /// Code 17, hundredths.
    pub sale_limit: Option<i64>,
    /// Code 18, hundredths.
    pub monthly_limit: Option<i64>,
    /// Code 19.
    pub daily_transactions: Option<i32>,
    /// Code 20.
    pub hourly_per_address: Option<i32>,
    /// Of the convenience fee, basis points.
    pub fee_percent: Option<i32>,
    /// Of the convenience fee, hundredths.
    pub fee_fixed: Option<i64>,
    /// Where the merchant's own receipts go; an empty text is nowhere.
    pub contact_email: Option<String>,
    /// Whose pages may frame the capture field.
    pub allowed_origins: Option<Vec<String>>,
}

/// The keys of an account, shown once.
#[derive(Debug)]
pub struct Keys {
    /// What every operation is called with.
    pub api_key: Secret<String>,
    /// 16 characters under which card numbers may be encrypted.
    pub secret_key: Secret<String>,
    /// What scripts in a browser name the account by. No secret.
    pub app_key: String,
}

/// What keys are hashed and encrypted with.
#[derive(Clone)]
pub struct Vaulting {
    /// Hashes API keys, proxy numbers and fingerprints.
    pub pepper: Pepper,
    /// Encrypts secret keys and card numbers.
    pub card_keys: KeyRing,
}

impl Vaulting {
    /// Has an account's keys written as they are kept.
    async fn keep(
        &self,
        keys: &Keys,
        id: AccountId,
        write: impl AsyncFnOnce(&store::Kept<'_>) -> Result<(), sqlx::Error>,
    ) -> Result<(), sqlx::Error> {
        write(&store::Kept {
            api_key_hash: &self.pepper.hash(keys.api_key.expose()),
            pepper_id: &self.pepper.id(),
            secret_key_sealed: &self.card_keys.seal(keys.secret_key.expose(), &secret_key_context(id)),
            app_key: &keys.app_key,
        })
        .await
    }
}

/// Makes an account and its keys.
///
/// # Errors
/// The user name is taken or malformed, and whatever the database says.
pub async fn create(
    db: &mut PgConnection,
    vaulting: &Vaulting,
    username: &str,
    settings: &Settings,
    now: Timestamp,
) -> Result<Keys, sqlx::Error> {
    let id = AccountId::new(now);
    let keys = new_keys(username);
    vaulting.keep(&keys, id, async |kept| store::insert(db, id, username, kept, now).await).await?;
    store::set(db, username, settings).await?;
    Ok(keys)
}

/// Changes what is set for an account; whether there is one of this name.
///
/// # Errors
/// Only the database's.
pub async fn set(db: &mut PgConnection, username: &str, settings: &Settings) -> Result<bool, sqlx::Error> {
    store::set(db, username, settings).await
}

/// Gives an account new keys. The former ones go on holding for so long; those from before them end at once. None if there is no
/// account of this name.
///
/// # Errors
/// Only the database's.
pub async fn rotate_keys(
    db: &mut PgConnection,
    vaulting: &Vaulting,
    username: &str,
    grace: Duration,
) -> Result<Option<Keys>, sqlx::Error> {
    let Some(id) = store::lock(&mut *db, username).await? else { return Ok(None) };
    match grace.is_zero() {
        true => store::end_former(&mut *db, id).await?,
        false => store::keep_former(&mut *db, id, grace).await?,
    }
    let keys = new_keys(username);
    vaulting.keep(&keys, id, async |kept| store::set_keys(db, id, kept).await).await?;
    Ok(Some(keys))
}

/// The account of this name.
///
/// # Errors
/// Only the database's.
pub async fn named(db: &mut PgConnection, username: &str) -> Result<Option<Account>, sqlx::Error> {
    store::find(db, username).await
}

/// Every account, oldest first.
///
/// # Errors
/// Only the database's.
pub async fn list(db: &PgPool) -> Result<Vec<Account>, sqlx::Error> {
    store::list(db).await
}

/// The account that a caller names and proves to be, 01 before 09.
///
/// # Errors
/// 01 for no or an unknown name, 09 for no or another key.
pub async fn authenticate(
    db: &PgPool,
    pepper: &Pepper,
    username: Option<&str>,
    api_key: Option<&str>,
) -> Result<Account> {
    let username = username.filter(|name| may_be_known(name)).ok_or(Code::Username.refuse())?;
    let account = store::find(db, username).await?.ok_or(Code::Username.refuse())?;
    let api_key = api_key.ok_or(Code::ApiKey.refuse())?;
    if pepper.matches(api_key, &account.api_key_hash) {
        if account.pepper_id.is_none() {
            store::note_pepper(db, account.id, &account.api_key_hash, &pepper.id()).await?;
        }
        return Ok(account);
    }
    let former = account.former_api_key_hash.as_ref().is_some_and(|hash| pepper.matches(api_key, hash));
    if former { Ok(account) } else { Err(Code::ApiKey.refuse()) }
}

/// The account that a script in a browser names. It proves nothing: it may only ask for what anyone may have.
///
/// # Errors
/// 01 for no or an unknown key.
pub async fn by_app_key(db: &PgPool, app_key: Option<&str>) -> Result<Account> {
    let app_key = app_key.filter(|key| may_be_known(key)).ok_or(Code::Username.because("app_key"))?;
    store::find_by_app_key(db, app_key).await?.ok_or(Code::Username.because("app_key"))
}

/// Postgres keeps no text with a NUL in it, so nobody is known by one, and it cannot even be asked about.
fn may_be_known(text: &str) -> bool {
    !text.contains('\0')
}

impl Account {
    /// The 16 characters under which callers encrypt card numbers: the current ones, and former ones that still hold. What the
    /// gateway has no key for is left out.
    pub fn secret_keys(&self, card_keys: &KeyRing) -> impl Iterator<Item = Secret<String>> {
        let sealed = std::iter::once(&self.secret_key_sealed).chain(&self.former_secret_key_sealed);
        sealed.filter_map(|sealed| card_keys.open(sealed, &secret_key_context(self.id)))
    }

    /// The 16 characters that belong to this name of it, so that who knows it by that name knows them too; none if the gateway
    /// has another key than when they were made.
    pub fn secret_key_of(&self, app_key: &str, card_keys: &KeyRing) -> Option<Secret<String>> {
        let former = self.former_secret_key_sealed.as_ref().filter(|_| self.former_app_key.as_deref() == Some(app_key));
        card_keys.open(former.unwrap_or(&self.secret_key_sealed), &secret_key_context(self.id))
    }

    /// Whether scripts in a browser name it so, or did before the last rotation and still may.
    pub fn is_named(&self, app_key: &str) -> bool {
        self.app_key == app_key || self.former_app_key.as_deref() == Some(app_key)
    }

    /// What it adds to its sales.
    pub const fn fee(&self) -> Fee {
        Fee { percent: self.fee_percent, fixed: self.fee_fixed }
    }

    /// Whether it may be paid in this currency.
    pub fn takes_currency(&self, currency: &str) -> bool {
        self.currencies.iter().any(|allowed| allowed == currency)
    }

    /// Whether no processor takes this brand for it.
    pub fn refuses_brand(&self, brand: Brand) -> bool {
        self.refused_brands.iter().any(|refused| refused == brand.name())
    }
}

/// What the ciphertext of an account's secret is bound to.
pub fn secret_key_context(id: AccountId) -> String {
    format!("secret_key:{}", id.uuid())
}

fn new_keys(username: &str) -> Keys {
    let api_key = Secret::new(format!("gwk_{}", random_hex(32)));
    let secret_key = Secret::new(random_letters(16));
    let app_key = app_key(username, secret_key.expose());
    Keys { api_key, secret_key, app_key }
}

/// MD5 of the user name and the secret key, as the contract has it: a name for the account, and no proof of anything.
fn app_key(username: &str, secret_key: &str) -> String {
    common::crypto::hex(&Md5::digest(format!("{username}{secret_key}")))
}

/// Random letters and digits, each with the same chance.
fn random_letters(count: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..count).map(|_| char::from(LETTERS[(random_u32() % 64) as usize])).collect()
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
            assert_eq!(code.parse::<common::money::Currency>().expect(code).exponent(), 2, "{code}");
        }
    }
}
