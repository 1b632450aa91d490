//! SQL for attempts. Attempts that charge a card are inserted in batches with their payments
//! (`flows/collect_invoices.rs`).

use sqlx::{PgConnection, PgPool};

use crate::invoices::Invoice;
use crate::invoices::attempts::{Attempt, AttemptStatus, PaymentAttempt};
use crate::invoices::collection::Failure;
use foundation::error::Result;
use foundation::id::{AccountId, CollectionAttemptId, InvoiceId, PaymentId};
use foundation::time::Timestamp;
use providers::DeclineType;

pub(in crate::invoices) async fn of_payment(
    tx: &mut PgConnection,
    account: AccountId,
    payment: PaymentId,
) -> Result<Option<PaymentAttempt>> {
    let row = sqlx::query_as!(
        PaymentAttempt,
        "SELECT id, attempted_at FROM collection_attempts WHERE account_id = $1 AND payment_id = $2",
        account.uuid(),
        payment.uuid(),
    )
    .fetch_optional(tx)
    .await?;
    Ok(row)
}

pub(in crate::invoices) async fn is_in_flight(
    tx: &mut PgConnection,
    account: AccountId,
    invoice: InvoiceId,
) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM collection_attempts
                          WHERE account_id = $1 AND invoice_id = $2 AND status = 'processing') AS "found!""#,
        account.uuid(),
        invoice.uuid(),
    )
    .fetch_one(tx)
    .await?;
    Ok(found)
}

pub(in crate::invoices) async fn finish(
    tx: &mut PgConnection,
    id: CollectionAttemptId,
    status: AttemptStatus,
    failure: Option<Failure<'_>>,
    next: Option<Timestamp>,
) -> Result<()> {
    sqlx::query!(
        "UPDATE collection_attempts SET status = $2, decline_code = $3, decline_type = $4, next_attempt_at = $5
         WHERE id = $1",
        id.uuid(),
        status as AttemptStatus,
        failure.map(|failure| failure.code),
        failure.map(|failure| failure.kind) as Option<DeclineType>,
        next,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(in crate::invoices) async fn insert_failed(
    tx: &mut PgConnection,
    invoice: &Invoice,
    id: CollectionAttemptId,
    number: i32,
    failure: Failure<'_>,
    now: Timestamp,
) -> Result<()> {
    sqlx::query!(
        "INSERT INTO collection_attempts
            (id, account_id, invoice_id, number, status, amount, decline_code, decline_type, attempted_at, next_attempt_at)
         VALUES ($1, $2, $3, $4, 'failed', $5, $6, $7, $8, $9)",
        id.uuid(),
        invoice.account_id.uuid(),
        invoice.id.uuid(),
        number,
        invoice.amount,
        failure.code,
        failure.kind as DeclineType,
        now,
        invoice.next_attempt_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns the number of an attempt, if it belongs to the invoice.
pub(in crate::invoices) async fn number(
    db: &PgPool,
    account: AccountId,
    invoice: InvoiceId,
    id: CollectionAttemptId,
) -> Result<Option<i32>> {
    let number = sqlx::query_scalar!(
        "SELECT number FROM collection_attempts WHERE account_id = $1 AND invoice_id = $2 AND id = $3",
        account.uuid(),
        invoice.uuid(),
        id.uuid(),
    )
    .fetch_optional(db)
    .await?;
    Ok(number)
}

pub(in crate::invoices) async fn list(
    db: &PgPool,
    account: AccountId,
    invoice: InvoiceId,
    after: i32,
    limit: i64,
) -> Result<Vec<Attempt>> {
    let rows = sqlx::query_as!(
        Attempt,
        r#"SELECT t.id, a.mode, t.number, t.status, t.amount, t.payment_id, t.decline_code, t.decline_type, t.attempted_at,
                  t.next_attempt_at,
                  EXISTS (SELECT 1 FROM operations o WHERE o.account_id = t.account_id AND o.payment_id = t.payment_id
                          AND o.kind IN ('sale', 'authorize') AND o.state::text = 'unknown') AS "unknown!"
           FROM collection_attempts t JOIN accounts a ON a.id = t.account_id
           WHERE t.account_id = $1 AND t.invoice_id = $2 AND t.number > $3 ORDER BY t.number LIMIT $4"#,
        account.uuid(),
        invoice.uuid(),
        after,
        limit,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}
