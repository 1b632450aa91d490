//! SQL of accounts.

use std::time::Duration;

use foundation::calendar::TimeZone;
use foundation::time::Timestamp;
use sqlx::{PgConnection, PgExecutor, PgPool};

use super::{Account, CURRENCIES, Settings};
use crate::id::AccountId;

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

/// An account's keys in the form in which they are stored.
pub(super) struct SealedKeys<'a> {
    pub(super) api_key_hash: &'a [u8],
    pub(super) pepper_id: &'a [u8],
    pub(super) secret_key_sealed: &'a [u8],
    pub(super) app_key: &'a str,
}

pub(super) async fn insert(
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

/// Locks an account's keys until the transaction ends. `None` if the account does not exist.
pub(super) async fn lock(db: &mut PgConnection, username: &str) -> Result<Option<AccountId>, sqlx::Error> {
    let id = sqlx::query_scalar!("SELECT id FROM gateway.accounts WHERE username = $1 FOR NO KEY UPDATE", username);
    Ok(id.fetch_optional(db).await?.map(AccountId::from))
}

/// Keeps a locked account's current keys valid for `grace` as its former keys, replacing earlier former keys.
pub(super) async fn save_former_keys(db: &mut PgConnection, id: AccountId, grace: Duration) -> Result<(), sqlx::Error> {
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
pub(super) async fn delete_former_keys(db: &mut PgConnection, id: AccountId) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM gateway.former_keys WHERE account_id = $1", id.uuid()).execute(db).await?;
    Ok(())
}

pub(super) async fn set_keys(db: &mut PgConnection, id: AccountId, keys: &SealedKeys<'_>) -> Result<(), sqlx::Error> {
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
pub(super) async fn rehash(
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
pub(super) async fn are_key_hashes_bound(db: &PgPool) -> Result<bool, sqlx::Error> {
    let query = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM gateway.key_hashes WHERE bound) AS "bound!""#);
    query.fetch_one(db).await
}

/// See [`super::bind_key_hashes`].
pub(super) async fn bind_key_hashes(db: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE gateway.key_hashes SET bound = true WHERE NOT bound").execute(db).await?;
    Ok(())
}

/// The account of a user name.
///
/// # Errors
/// Database errors.
pub async fn find(db: impl PgExecutor<'_>, username: &str) -> Result<Option<Account>, sqlx::Error> {
    select_accounts!("WHERE a.username = $1", username).fetch_optional(db).await
}

pub(super) async fn find_by_app_key(db: &PgPool, app_key: &str) -> Result<Option<Account>, sqlx::Error> {
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
