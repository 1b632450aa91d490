//! Idempotency keys of POST /v1/payments: one key, one payment, one response (docs/api.md, Idempotency).

use sqlx::{PgConnection, PgPool};

use crate::idempotency::IdempotencyKey;
use foundation::error::Result;
use foundation::id::{AccountId, PaymentId};
use foundation::time::Timestamp;

/// The payment that a key belongs to.
#[derive(Debug)]
pub enum Claim {
    /// The new payment, which is to be created.
    Ours,
    /// The payment of an earlier request with the same body.
    Earlier(PaymentId),
}

/// Claims the key for a payment. A concurrent request with the same key waits here until the first has committed or
/// rolled back.
///
/// # Errors
/// 422 naming `Idempotency-Key` if the key was used with another body.
pub async fn claim(
    tx: &mut PgConnection,
    account: AccountId,
    key: &IdempotencyKey,
    payment: PaymentId,
    now: Timestamp,
) -> Result<Claim> {
    let done = sqlx::query!(
        "INSERT INTO idempotency_keys (account_id, key, request_hash, payment_id, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (account_id, key) DO NOTHING",
        account.uuid(),
        key.text(),
        key.request_hash(),
        payment.uuid(),
        now,
    )
    .execute(&mut *tx)
    .await?;
    if done.rows_affected() == 1 {
        return Ok(Claim::Ours);
    }
    let row = sqlx::query!(
        "SELECT request_hash, payment_id FROM idempotency_keys WHERE account_id = $1 AND key = $2",
        account.uuid(),
        key.text()
    )
    .fetch_one(tx)
    .await?;
    if row.request_hash == key.request_hash() {
        Ok(Claim::Earlier(row.payment_id))
    } else {
        Err(IdempotencyKey::used_with_another_body())
    }
}

/// Returns the response stored for a payment, if its outcome is known and a key was used.
///
/// # Errors
/// Database errors only.
pub async fn stored_response(db: &PgPool, account: AccountId, payment: PaymentId) -> Result<Option<String>> {
    let response = sqlx::query_scalar!(
        "SELECT answer FROM idempotency_keys WHERE account_id = $1 AND payment_id = $2",
        account.uuid(),
        payment.uuid()
    )
    .fetch_optional(db)
    .await?;
    Ok(response.flatten())
}
