//! Accounts: credentials and settings of merchants.

mod fee;
mod keys;

use foundation::calendar::TimeZone;
use foundation::crypto::Secret;
use foundation::time::Timestamp;
use sqlx::{PgConnection, PgExecutor, PgPool};

pub use fee::{Fee, HUNDRED_PERCENT};
pub use keys::{CryptoKeys, Keys, authenticate, bind_key_hashes, rotate_keys, secret_key_context};
use keys::{SealedKeys, new_keys};

use crate::cards::{Brand, KeyRing};
use crate::failure::{Code, Result};
use crate::id::AccountId;

/// The currencies of the gateway; an account may accept fewer. All have two decimal places.
pub const CURRENCIES: [&str; 11] = ["USD", "EUR", "GBP", "CAD", "AUD", "NZD", "AED", "DKK", "MXN", "SEK", "CHF"];

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
    /// Code 20: transactions per hour from one address; an IPv6 /64 is one.
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
    crypto.write_sealed(&keys, id, async |sealed| insert(db, id, username, sealed, now).await).await?;
    set(db, username, settings).await?;
    Ok(keys)
}

/// The account of a browser script. This is no authentication: it gives access only to public operations.
///
/// # Errors
/// 01 for an unknown app key.
pub async fn by_app_key(db: &PgPool, app_key: &str) -> Result<Account> {
    let account = if is_storable(app_key) { find_by_app_key(db, app_key).await? } else { None };
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

/// The column list is shared by all readers. Expired former keys are never read.
macro_rules! select_accounts {
    ($rest:literal $(, $arg:expr)*) => {
        sqlx::query_as!(
            Account,
            r#"SELECT a.id AS "id: AccountId", a.username, a.name, a.api_key_hash, a.secret_key_sealed, a.app_key, a.pepper_id,
                      f.api_key_hash AS "former_api_key_hash?", f.secret_key_sealed AS "former_secret_key_sealed?",
                      f.app_key AS "former_app_key?", f.until AS "former_keys_until?",
                      a.time_zone AS "time_zone: TimeZone", a.currencies, a.refused_brands, a.cvv_required, a.three_ds,
                      a.deny_unauthenticated, a.sale_limit, a.monthly_limit, a.daily_transactions, a.hourly_per_address,
                      a.fee_percent, a.fee_fixed, a.contact_email, a.allowed_origins, a.created_at
               FROM gateway.accounts a
               LEFT JOIN gateway.former_keys f ON f.account_id = a.id AND f.until > clock_timestamp() "# + $rest
            $(, $arg)*
        )
    };
}

async fn insert(
    db: &mut PgConnection,
    id: AccountId,
    username: &str,
    keys: &SealedKeys<'_>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let currencies = CURRENCIES.map(str::to_owned);
    sqlx::query!(
        "INSERT INTO gateway.accounts
             (id, username, name, api_key_hash, pepper_id, secret_key_sealed, app_key, currencies, created_at)
         VALUES ($1, $2, $2, $3, $4, $5, $6, $7, $8)",
        id.uuid(),
        username,
        keys.api_key_hash,
        keys.pepper_id,
        keys.secret_key_sealed,
        keys.app_key,
        currencies.as_slice(),
        now,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Changes an account's settings; returns whether the account exists.
///
/// # Errors
/// Database errors.
pub async fn set(db: &mut PgConnection, username: &str, set: &Settings) -> Result<bool, sqlx::Error> {
    let brands: Option<Vec<String>> =
        set.refused_brands.as_ref().map(|brands| brands.iter().map(|brand| brand.name().to_owned()).collect());
    let done = sqlx::query!(
        "UPDATE gateway.accounts SET
             name = COALESCE($2, name),
             time_zone = COALESCE($3, time_zone),
             currencies = COALESCE($4, currencies),
             refused_brands = COALESCE($5, refused_brands),
             cvv_required = COALESCE($6, cvv_required),
             three_ds = COALESCE($7, three_ds),
             deny_unauthenticated = COALESCE($8, deny_unauthenticated),
             sale_limit = COALESCE($9, sale_limit),
             monthly_limit = COALESCE($10, monthly_limit),
             daily_transactions = COALESCE($11, daily_transactions),
             hourly_per_address = COALESCE($12, hourly_per_address),
             fee_percent = COALESCE($13, fee_percent),
             fee_fixed = COALESCE($14, fee_fixed),
             contact_email = NULLIF(COALESCE($15, contact_email), ''),
             allowed_origins = COALESCE($16, allowed_origins)
         WHERE username = $1",
        username,
        set.name,
        set.time_zone.as_ref().map(TimeZone::name),
        set.currencies.as_deref(),
        brands.as_deref(),
        set.cvv_required,
        set.three_ds,
        set.deny_unauthenticated,
        set.sale_limit,
        set.monthly_limit,
        set.daily_transactions,
        set.hourly_per_address,
        set.fee_percent,
        set.fee_fixed,
        set.contact_email,
        set.allowed_origins.as_deref(),
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The account of a user name.
///
/// # Errors
/// Database errors.
pub async fn find(db: impl PgExecutor<'_>, username: &str) -> Result<Option<Account>, sqlx::Error> {
    select_accounts!("WHERE a.username = $1", username).fetch_optional(db).await
}

async fn find_by_app_key(db: &PgPool, app_key: &str) -> Result<Option<Account>, sqlx::Error> {
    select_accounts!(
        "WHERE a.id = (SELECT id FROM gateway.accounts WHERE app_key = $1
                       UNION ALL SELECT account_id FROM gateway.former_keys WHERE app_key = $1 AND until > clock_timestamp()
                       LIMIT 1)",
        app_key
    )
    .fetch_optional(db)
    .await
}

/// All accounts, oldest first.
///
/// # Errors
/// Database errors.
pub async fn list(db: &PgPool) -> Result<Vec<Account>, sqlx::Error> {
    select_accounts!("ORDER BY a.id").fetch_all(db).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_currency_has_two_places() {
        for code in CURRENCIES {
            assert_eq!(code.parse::<foundation::money::Currency>().expect(code).exponent(), 2, "{code}");
        }
    }
}
