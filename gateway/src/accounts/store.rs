//! The SQL of accounts.

use common::calendar::TimeZone;
use common::time::Timestamp;
use sqlx::{PgConnection, PgExecutor, PgPool};

use super::{Account, CURRENCIES, Settings};
use crate::id::AccountId;

/// Every reader reads all of an account, so the columns stand once.
macro_rules! select_accounts {
    ($rest:literal $(, $arg:expr)*) => {
        sqlx::query_as!(
            Account,
            r#"SELECT id AS "id: AccountId", username, name, api_key_hash, secret_key_sealed, app_key,
                      time_zone AS "time_zone: TimeZone", currencies, refused_brands, cvv_required, three_ds,
                      deny_unauthenticated, sale_limit, monthly_limit, daily_transactions, hourly_per_address, fee_percent,
                      fee_fixed, contact_email, created_at
               FROM gateway.accounts "# + $rest
            $(, $arg)*
        )
    };
}

pub(super) async fn insert(
    db: &mut PgConnection,
    id: AccountId,
    username: &str,
    api_key_hash: &[u8],
    secret_key_sealed: &[u8],
    app_key: &str,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let currencies = CURRENCIES.map(str::to_owned);
    sqlx::query!(
        "INSERT INTO gateway.accounts (id, username, name, api_key_hash, secret_key_sealed, app_key, currencies, created_at)
         VALUES ($1, $2, $2, $3, $4, $5, $6, $7)",
        id.uuid(),
        username,
        api_key_hash,
        secret_key_sealed,
        app_key,
        currencies.as_slice(),
        now,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Whether there is an account of this name.
pub(super) async fn set(db: &mut PgConnection, username: &str, set: &Settings) -> Result<bool, sqlx::Error> {
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
             contact_email = NULLIF(COALESCE($15, contact_email), '')
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
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

pub(super) async fn set_keys(
    db: &mut PgConnection,
    id: AccountId,
    api_key_hash: &[u8],
    secret_key_sealed: &[u8],
    app_key: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.accounts SET api_key_hash = $2, secret_key_sealed = $3, app_key = $4 WHERE id = $1",
        id.uuid(),
        api_key_hash,
        secret_key_sealed,
        app_key,
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn find(db: impl PgExecutor<'_>, username: &str) -> Result<Option<Account>, sqlx::Error> {
    select_accounts!("WHERE username = $1", username).fetch_optional(db).await
}

pub(super) async fn find_by_app_key(db: &PgPool, app_key: &str) -> Result<Option<Account>, sqlx::Error> {
    select_accounts!("WHERE app_key = $1", app_key).fetch_optional(db).await
}

pub(super) async fn list(db: &PgPool) -> Result<Vec<Account>, sqlx::Error> {
    select_accounts!("ORDER BY id").fetch_all(db).await
}
