//! Nonces of signed requests: each is accepted once, and that memory is in Postgres, so it survives the loss of Redis.

use std::time::Duration;

use sqlx::PgPool;

use crate::error::Result;
use crate::id::{AccountId, KeyId};

/// How long a nonce is remembered: longer than its signature can be accepted, by any clock within the allowed skew.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Uses a nonce. `false`: this key has used it before.
///
/// # Errors
/// Only the database's.
pub async fn use_once(db: &PgPool, account: AccountId, key: KeyId, nonce: &str) -> Result<bool> {
    let done = sqlx::query!(
        "INSERT INTO request_nonces (account_id, key_id, nonce, expires_at)
         VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4)) ON CONFLICT (key_id, nonce) DO NOTHING",
        account.uuid(),
        key.uuid(),
        nonce,
        REMEMBERED.as_secs_f64(),
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Forgets nonces whose signatures are long refused for their age; so many at most, and answers how many.
///
/// # Errors
/// Only the database's.
pub async fn forget_expired(db: &PgPool, batch: i64) -> Result<u64> {
    let done = sqlx::query!(
        "DELETE FROM request_nonces WHERE ctid = ANY (ARRAY(SELECT ctid FROM request_nonces
            WHERE expires_at < (SELECT clock_timestamp()) ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
        batch,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}
