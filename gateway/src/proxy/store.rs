//! The SQL of proxy numbers.

use common::time::Timestamp;
use sqlx::PgPool;

use crate::id::AccountId;

pub(super) async fn insert(
    db: &PgPool,
    hash: &[u8],
    account: Option<AccountId>,
    number: &[u8],
    expires_at: Timestamp,
) -> Result<(), sqlx::Error> {
    // Should a random number meet one in use, the primary key says no and the browser asks again.
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

/// What is behind a proxy number, if it is this account's or nobody's yet.
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

/// Makes a proxy number this account's, unless it is somebody's already.
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
