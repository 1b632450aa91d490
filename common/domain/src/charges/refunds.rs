//! Refunds of a payment run one at a time.

use sqlx::PgConnection;

use super::claim::Claimed;
use foundation::error::Result;
use foundation::id::{AccountId, OperationId, PaymentId};

/// Returns the oldest refund of a payment that has not started. Refunds of a payment run one at a time: the next is
/// enqueued when the previous has ended.
///
/// # Errors
/// Database errors only.
pub async fn next_refund(tx: &mut PgConnection, account: AccountId, payment: PaymentId) -> Result<Option<OperationId>> {
    Ok(sqlx::query_scalar!(
        "SELECT id FROM operations WHERE account_id = $1 AND payment_id = $2 AND kind = 'refund' AND state = 'ready'
         ORDER BY id LIMIT 1",
        account.uuid(),
        payment.uuid()
    )
    .fetch_optional(tx)
    .await?)
}

/// Whether another refund of this payment has an unknown outcome. Compares the state as text, like every query about a
/// single payment: otherwise a plan that uses the index of all unknown outcomes, cached while there are few, would
/// still be used in an outage, when there are many.
///
/// # Errors
/// Database errors only.
pub async fn another_refund_is_unknown(tx: &mut PgConnection, claimed: &Claimed, payment: PaymentId) -> Result<bool> {
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM operations WHERE account_id = $1 AND payment_id = $2 AND kind = 'refund'
                         AND state::text = 'unknown' AND id <> $3) AS "found!""#,
        claimed.account_id.uuid(),
        payment.uuid(),
        claimed.id.uuid()
    )
    .fetch_one(tx)
    .await?)
}
