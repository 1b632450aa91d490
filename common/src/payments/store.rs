//! The SQL of payments.

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::{Inquiry, Payment, Status};
use crate::error::Result;
use crate::id::{AccountId, InvoiceId, PaymentId, PaymentLinkId};
use crate::operations::Kind;
use crate::time::Timestamp;

/// Every reader reads all of a payment, so the columns stand once.
macro_rules! select_payments {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Payment,
            "SELECT p.id, p.account_id, a.mode, p.provider_account_id, p.customer_id, p.payment_method_id, p.invoice_id,
                    p.payment_link_id, p.status, p.settled, p.capture, p.currency, p.amount_requested, p.amount,
                    p.amount_captured, p.amount_refunded, p.amount_refund_pending, p.amount_base, p.amount_surcharge, p.amount_tax, p.amount_tip,
                    p.card_brand, p.card_last4, p.card_exp_month, p.card_exp_year, p.decline_code, p.decline_type,
                    p.provider_ref, p.created_at, p.captured_at, p.inquiry_at, p.pending_operation, p.has_refunds
             FROM payments p JOIN accounts a ON a.id = p.account_id " + $rest,
            $($arg),*
        )
    };
}

pub(super) async fn find(db: impl PgExecutor<'_>, account: AccountId, id: PaymentId) -> Result<Option<Payment>> {
    let query = select_payments!("WHERE p.account_id = $1 AND p.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn lock(tx: &mut PgConnection, account: AccountId, id: PaymentId) -> Result<Option<Payment>> {
    let query =
        select_payments!("WHERE p.account_id = $1 AND p.id = $2 FOR NO KEY UPDATE OF p", account.uuid(), id.uuid());
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn list(
    db: impl PgExecutor<'_>,
    account: AccountId,
    after: Option<PaymentId>,
    limit: i64,
) -> Result<Vec<Payment>> {
    let query = select_payments!(
        "WHERE p.account_id = $1 AND p.id < $2 ORDER BY p.id DESC LIMIT $3",
        account.uuid(),
        after.map_or(Uuid::max(), PaymentId::uuid),
        limit
    );
    Ok(query.fetch_all(db).await?)
}

pub(super) async fn save(tx: &mut PgConnection, payment: &Payment) -> Result<()> {
    sqlx::query!(
        "UPDATE payments SET status = $3, settled = $4, amount_captured = $5, captured_at = $6, inquiry_at = $7,
                amount_refunded = $8, amount_refund_pending = $9, pending_operation = $10, has_refunds = $11,
                settled_at = CASE WHEN $4 THEN coalesce(settled_at, clock_timestamp()) END
         WHERE account_id = $1 AND id = $2",
        payment.account_id.uuid(),
        payment.id.uuid(),
        payment.status as Status,
        payment.settled,
        payment.amount_captured,
        payment.captured_at,
        payment.inquiry_at,
        payment.amount_refunded,
        payment.amount_refund_pending,
        payment.pending_operation as Option<Kind>,
        payment.has_refunds,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Which statuses are no live ones is said as the unique index says it: it is read from there.
pub(super) async fn live_for_invoice(
    tx: &mut PgConnection,
    account: AccountId,
    invoice: InvoiceId,
) -> Result<Option<Status>> {
    let status = sqlx::query_scalar!(
        "SELECT status FROM payments WHERE account_id = $1 AND invoice_id = $2
         AND status NOT IN ('declined', 'failed', 'cancelled', 'expired', 'refunded')",
        account.uuid(),
        invoice.uuid(),
    )
    .fetch_optional(tx)
    .await?;
    Ok(status)
}

pub(super) async fn live_for_link(
    tx: &mut PgConnection,
    account: AccountId,
    link: PaymentLinkId,
) -> Result<Option<Status>> {
    let status = sqlx::query_scalar!(
        "SELECT status FROM payments WHERE account_id = $1 AND payment_link_id = $2
         AND status NOT IN ('declined', 'failed', 'cancelled', 'expired', 'refunded')",
        account.uuid(),
        link.uuid(),
    )
    .fetch_optional(tx)
    .await?;
    Ok(status)
}

pub(super) async fn take_due_inquiries(db: &PgPool, now: Timestamp, batch: i64) -> Result<Vec<PaymentId>> {
    let rows = sqlx::query_scalar!(
        "UPDATE payments SET inquiry_at = $1::timestamptz + interval '30 seconds'
         WHERE id IN (SELECT id FROM payments WHERE inquiry_at <= $1
                      ORDER BY inquiry_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id",
        now,
        batch,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(super) async fn inquiry(db: &PgPool, id: PaymentId) -> Result<Option<Inquiry>> {
    let row = sqlx::query_as!(
        Inquiry,
        r#"SELECT p.id, p.account_id, p.provider_account_id, a.provider, p.provider_ref AS "provider_ref!"
           FROM payments p JOIN provider_accounts a ON a.id = p.provider_account_id
           WHERE p.id = $1 AND p.inquiry_at IS NOT NULL AND p.provider_ref IS NOT NULL"#,
        id.uuid()
    )
    .fetch_optional(db)
    .await?;
    Ok(row)
}
