//! Nonces of signed requests. Each is accepted once. They are stored in Postgres, so they survive the loss of Redis.

use std::time::Duration;

use sqlx::PgPool;

use foundation::error::Result;
use foundation::id::{AccountId, KeyId};

/// How long a nonce is stored: longer than its signature is valid, for any clock within the allowed skew.
const STORED_FOR: Duration = Duration::from_secs(3600);

/// Uses a nonce. Returns `false` if this key has already used it.
///
/// # Errors
/// Database errors only.
pub async fn use_once(db: &PgPool, account: AccountId, key: KeyId, nonce: &str) -> Result<bool> {
    let done = sqlx::query!(
        "INSERT INTO request_nonces (account_id, key_id, nonce, expires_at)
         VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4)) ON CONFLICT (key_id, nonce) DO NOTHING",
        account.uuid(),
        key.uuid(),
        nonce,
        STORED_FOR.as_secs_f64(),
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Deletes up to `batch` nonces whose signatures have long expired. Returns the number deleted.
///
/// # Errors
/// Database errors only.
pub async fn delete_expired(db: &PgPool, batch: i64) -> Result<u64> {
    let done = sqlx::query!(
        "DELETE FROM request_nonces WHERE ctid = ANY (ARRAY(SELECT ctid FROM request_nonces
            WHERE expires_at < (SELECT clock_timestamp()) ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
        batch,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}
