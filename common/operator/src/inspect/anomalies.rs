//! Charges that belong to no payment, and were reversed.

use sqlx::PgPool;

use foundation::error::Result;
use foundation::id::{AccountId, OperationId, PaymentId};
use foundation::time::Timestamp;

/// An unwanted charge of the payment.
pub(super) struct Anomaly {
    pub(super) operation_id: OperationId,
    pub(super) reversal_operation_id: OperationId,
    pub(super) provider_ref: String,
    pub(super) amount: i64,
    pub(super) created_at: Timestamp,
}

pub(super) async fn of_payment(db: &PgPool, account: AccountId, payment: PaymentId) -> Result<Vec<Anomaly>> {
    let operations = sqlx::query_as!(
        Anomaly,
        r#"SELECT a.operation_id AS "operation_id: OperationId", a.reversal_operation_id AS "reversal_operation_id: OperationId",
                  a.provider_ref, a.amount, a.created_at
           FROM operations o JOIN charge_anomalies a ON a.operation_id = o.id
           WHERE o.account_id = $1 AND o.payment_id = $2 LIMIT 100"#,
        account.uuid(),
        payment.uuid(),
    );
    Ok(operations.fetch_all(db).await?)
}
