//! SQL of operations for reconciliation.

use sqlx::PgPool;
use uuid::Uuid;

use crate::operations::books::{PaymentRecord, RecordedOperation};
use crate::operations::{OperationKind, State};
use foundation::error::Result;
use foundation::id::{AccountId, PaymentId, ProviderAccountId};
use foundation::money::Currency;
use foundation::time::Timestamp;

/// The columns are shared by all queries. An approved charge has the amount of its payment.
macro_rules! recorded {
    ($from:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            RecordedOperation,
            r#"SELECT o.id AS "id!", o.reference AS "reference!", o.kind AS "kind!: OperationKind", o.state AS "state!: State",
                      o.provider_ref AS "provider_ref?", o.target_ref AS "target_ref?", o.payment_id AS "payment_id?: PaymentId",
                      CASE WHEN o.kind IN ('sale', 'authorize') AND o.state = 'succeeded' THEN p.amount ELSE o.amount END AS amount,
                      o.currency AS "currency?: Currency", o.first_sent_at AS "first_sent_at?",
                      greatest(o.last_sent_at, o.finished_at) AS settled_at, o.finished_at AS "finished_at?",
                      extract(epoch FROM clock_timestamp() - o.created_at)::float8 AS "age_seconds!",
                      coalesce(o.lease_until >= clock_timestamp(), false) AS "is_held!"
               FROM "# + $from,
            $($arg),*
        )
    };
}

pub(in crate::operations) async fn by_reference(
    db: &PgPool,
    at: ProviderAccountId,
    references: &[String],
) -> Result<Vec<RecordedOperation>> {
    let query = recorded!(
        "operations o LEFT JOIN payments p ON p.id = o.payment_id
         WHERE o.provider_account_id = $1 AND o.reference = ANY ($2)",
        at.uuid(),
        references,
    );
    Ok(query.fetch_all(db).await?)
}

pub(in crate::operations) async fn of_payments(
    db: &PgPool,
    account: AccountId,
    payments: &[Uuid],
) -> Result<Vec<RecordedOperation>> {
    let query = recorded!(
        "operations o LEFT JOIN payments p ON p.id = o.payment_id
         WHERE o.account_id = $1 AND o.payment_id = ANY ($2)",
        account.uuid(),
        payments,
    );
    Ok(query.fetch_all(db).await?)
}

pub(in crate::operations) async fn succeeded(
    db: &PgPool,
    at: ProviderAccountId,
    from: Timestamp,
    to: Timestamp,
    limit: i64,
) -> Result<Vec<RecordedOperation>> {
    let query = recorded!(
        "(SELECT * FROM operations
          WHERE provider_account_id = $1 AND state = 'succeeded' AND finished_at >= $2 AND finished_at < $3
          ORDER BY provider_account_id, finished_at LIMIT $4) o
         LEFT JOIN payments p ON p.id = o.payment_id",
        at.uuid(),
        from,
        to,
        limit,
    );
    let mut rows = query.fetch_all(db).await?;
    rows.sort_by_key(|row| row.finished_at);
    Ok(rows)
}

pub(in crate::operations) async fn page(
    db: &PgPool,
    at: ProviderAccountId,
    after: &str,
    before: &str,
    limit: i64,
) -> Result<Vec<RecordedOperation>> {
    let query = recorded!(
        "(SELECT * FROM operations WHERE provider_account_id = $1 AND reference > $2 AND reference < $3
          ORDER BY provider_account_id, reference LIMIT $4) o
         LEFT JOIN payments p ON p.id = o.payment_id",
        at.uuid(),
        after,
        before,
        limit,
    );
    let mut rows = query.fetch_all(db).await?;
    rows.sort_by(|a, b| a.reference.cmp(&b.reference));
    Ok(rows)
}

pub(in crate::operations) async fn payment_record(
    db: &PgPool,
    account: AccountId,
    payment: PaymentId,
    ended_before: Timestamp,
) -> Result<Option<PaymentRecord>> {
    // Read the payment before its operations: every change of it that is visible by then has its outcome among them.
    let sums = sqlx::query!(
        r#"SELECT amount_captured, amount_refunded, amount_refund_pending = 0 AND pending_operation IS NULL AS "is_at_rest!"
           FROM payments WHERE account_id = $1 AND id = $2"#,
        account.uuid(),
        payment.uuid(),
    );
    let Some(sums) = sums.fetch_optional(db).await? else { return Ok(None) };
    let operations = of_payments(db, account, &[payment.uuid()]).await?;
    let ended = |operation: &RecordedOperation| operation.finished_at.is_some_and(|at| at < ended_before);
    Ok(Some(PaymentRecord {
        captured: sums.amount_captured,
        refunded: sums.amount_refunded,
        all_ended: sums.is_at_rest && operations.iter().all(ended),
        operations,
    }))
}
