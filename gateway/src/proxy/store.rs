//! SQL of proxy numbers.

use foundation::time::Timestamp;
use sqlx::PgPool;

use crate::id::AccountId;

pub(super) async fn insert(
    db: &PgPool,
    hash: &[u8],
    account: Option<AccountId>,
    number: &[u8],
    expires_at: Timestamp,
) -> Result<(), sqlx::Error> {
    // On a collision with an existing number the primary key rejects the insert, and the browser has to retry.
    sqlx::query!(
        "INSERT INTO gateway.proxy_numbers (proxy_hash, account_id, number, expires_at) VALUES ($1, $2, $3, $4)",
        hash,
        account.map(AccountId::uuid),
        number,
        expires_at,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The encrypted card number, if the proxy number is not bound to another account.
pub(super) async fn find(db: &PgPool, account: AccountId, hash: &[u8]) -> Result<Option<Vec<u8>>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT number FROM gateway.proxy_numbers
         WHERE proxy_hash = $1 AND expires_at > clock_timestamp() AND (account_id IS NULL OR account_id = $2)",
        hash,
        account.uuid(),
    )
    .fetch_optional(db)
    .await
}

/// Binds a proxy number to an account, unless it is already bound.
pub(super) async fn bind(db: &PgPool, account: AccountId, hash: &[u8]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.proxy_numbers SET account_id = $2 WHERE proxy_hash = $1 AND account_id IS NULL",
        hash,
        account.uuid(),
    )
    .execute(db)
    .await?;
    Ok(())
}
