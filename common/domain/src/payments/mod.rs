//! Payments: requested, approved, captured and refunded amounts, and the status.

mod inquiries;
mod intent;
mod list;
mod payment;
pub mod payment_keys;
pub mod refunds;
mod rules;
mod status;
mod view;

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

pub use inquiries::{
    DueInquiry, INQUIRY_BATCH, Inquiry, InquiryKind, due_inquiries, inquire_soon, inquiry, next_inquiry,
    postpone_inquiries, take_due_inquiries,
};
pub use intent::NewPayment;
pub use list::{Filter, Listed, list};
pub use payment::{ChargeReturn, Payment};
pub use refunds::{Refund, RefundStatus, RefundView};
pub use status::Status;
pub use view::PaymentView;

use crate::merchant_data::change_merchant_data;
use crate::operations::OperationKind;
use foundation::db::{self, Reader};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, InvoiceId, PaymentId, PaymentLinkId};
use foundation::merchant_data::MerchantDataChange;
use foundation::rule_enabled;
use foundation::time::Timestamp;
use providers::FailureCode;

/// The columns are shared by all queries.
macro_rules! select_payments {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Payment,
            "SELECT p.id, p.account_id, a.mode, p.provider_account_id, p.customer_id, p.payment_method_id, p.invoice_id,
                    p.payment_link_id, p.status, p.settled, p.capture, p.currency, p.amount_requested, p.amount,
                    p.amount_captured, p.amount_refunded, p.amount_refund_pending, p.amount_disputed, p.amount_base, p.amount_surcharge, p.amount_tax, p.amount_tip,
                    p.card_brand, p.card_last4, p.card_exp_month, p.card_exp_year, p.decline_code, p.decline_type,
                    p.provider_ref, p.created_at, p.captured_at, p.inquiry_at, p.inquiry_requests, p.pending_operation, p.has_refunds,
                    p.action_token, p.challenge_url, p.failure_code, p.description, p.metadata, p.external_id, p.version,
                    CASE WHEN p.failure_code = 'amount_mismatch' THEN
                        charge_return(p.account_id, coalesce(p.invoice_id, p.payment_link_id, p.id), p.id) END
                        AS \"charge_return: ChargeReturn\"
             FROM payments p JOIN accounts a ON a.id = p.account_id " + $rest,
            $($arg),*
        )
    };
}

use select_payments;

/// Returns a payment.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: PaymentId) -> Result<Payment> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("payment", id))
}

/// Returns a payment if it exists, within a transaction.
///
/// # Errors
/// Database errors only.
pub async fn find(db: impl PgExecutor<'_>, account: AccountId, id: PaymentId) -> Result<Option<Payment>> {
    let query = select_payments!("WHERE p.account_id = $1 AND p.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// Starts a reader of payments. Must be called inside a Tokio runtime.
pub fn reader(pool: PgPool) -> Reader<PaymentId, Payment> {
    Reader::start("payment", pool, |db, ids| Box::pin(find_all(db, ids)), |payment| (payment.account_id, payment.id))
}

/// Returns those of the payments that exist, of any account.
async fn find_all(db: &mut PgConnection, ids: &[PaymentId]) -> sqlx::Result<Vec<Payment>> {
    select_payments!("WHERE p.id = ANY ($1)", &ids.iter().map(|id| id.uuid()).collect::<Vec<_>>(),).fetch_all(db).await
}

/// Locks a payment to write its outcome. Payments are locked before their operations.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: PaymentId) -> Result<Payment> {
    let query =
        select_payments!("WHERE p.account_id = $1 AND p.id = $2 FOR NO KEY UPDATE OF p", account.uuid(), id.uuid());
    query.fetch_optional(tx).await?.ok_or_else(|| Error::no_such("payment", id))
}

/// Writes the fields that may change after the charge; the fields that the charge itself set are never rewritten. The
/// caller has locked the payment.
///
/// # Errors
/// Database errors only.
pub async fn save(tx: &mut PgConnection, payment: &mut Payment) -> Result<()> {
    payment.version = sqlx::query_scalar!(
        "UPDATE payments SET status = $3, settled = $4, amount_captured = $5, captured_at = $6, inquiry_at = $7,
                amount_refunded = $8, amount_refund_pending = $9, pending_operation = $10, has_refunds = $11,
                failure_code = $12, amount_disputed = $13, settled_at = CASE WHEN $4 THEN coalesce(settled_at, account_now($1, clock_timestamp())) END
         WHERE account_id = $1 AND id = $2 RETURNING version",
        payment.account_id.uuid(),
        payment.id.uuid(),
        payment.status as Status,
        payment.settled,
        payment.amount_captured,
        payment.captured_at,
        payment.inquiry_at,
        payment.amount_refunded,
        payment.amount_refund_pending,
        payment.pending_operation as Option<OperationKind>,
        payment.has_refunds,
        payment.failure_code as Option<FailureCode>,
        payment.amount_disputed,
    )
    .fetch_one(tx)
    .await?;
    Ok(())
}

/// Records the challenge, and the response that a replay of the request returns. The caller has locked the payment.
///
/// # Errors
/// Database errors only.
pub async fn save_challenge(tx: &mut PgConnection, payment: &Payment, response: &str) -> Result<()> {
    sqlx::query!(
        "WITH payment AS (
            UPDATE payments SET status = $3, action_token = $4, challenge_url = $5
            WHERE account_id = $1 AND id = $2 RETURNING id)
         UPDATE idempotency_keys k SET answer = $6 FROM payment
         WHERE k.account_id = $1 AND k.payment_id = payment.id AND k.answer IS NULL",
        payment.account_id.uuid(),
        payment.id.uuid(),
        payment.status as Status,
        payment.action_token,
        payment.challenge_url,
        response,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns a payment and its refunds from one snapshot, so that sums and refunds in a response agree.
///
/// # Errors
/// As [`retrieve`].
pub async fn retrieve_with_refunds(db: &PgPool, account: AccountId, id: PaymentId) -> Result<(Payment, Vec<Refund>)> {
    let payment = retrieve(db, account, id).await?;
    if !payment.has_refunds {
        return Ok((payment, vec![]));
    }
    let mut snapshot = db::snapshot(db).await?;
    let payment = find(&mut *snapshot, account, id).await?.ok_or_else(|| Error::no_such("payment", id))?;
    let refunds = refunds::of_payment(&mut snapshot, &payment).await?;
    snapshot.rollback().await?;
    Ok((payment, refunds))
}

/// Changes the merchant's own data. This has no event.
///
/// # Errors
/// [`Error::NotFound`]; 422 `metadata` if it becomes too large.
pub async fn update(
    db: &PgPool,
    account: AccountId,
    id: PaymentId,
    change: MerchantDataChange,
) -> Result<(Payment, Vec<Refund>)> {
    let mut tx = db::begin(db).await?;
    change_merchant_data!(tx, "payments", "payment", account, id, change);
    let payment = find(&mut *tx, account, id).await?.ok_or_else(|| Error::no_such("payment", id))?;
    let refunds = refunds::of_payment(&mut tx, &payment).await?;
    tx.commit().await?;
    Ok((payment, refunds))
}

/// The live payment of an invoice or link: approved and not reversed, or in progress.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    pub id: PaymentId,
    pub status: Status,
}

/// The live payment for an invoice or link, if there is one.
macro_rules! live {
    ($tx:ident, $account:expr, $column:literal, $id:expr) => {
        sqlx::query_as!(
            Live,
            "SELECT id, status FROM payments WHERE account_id = $1 AND " + $column + " = $2 AND is_live(status)",
            $account.uuid(),
            $id.uuid(),
        )
        .fetch_optional($tx)
        .await?
    };
}

/// Returns the live payment for an invoice, if there is one. The caller has locked the invoice.
///
/// # Errors
/// Database errors only.
pub async fn live_for_invoice(tx: &mut PgConnection, account: AccountId, invoice: InvoiceId) -> Result<Option<Live>> {
    Ok(live!(tx, account, "invoice_id", invoice))
}

/// Like [`live_for_invoice`], for a payment link, which the caller has locked.
///
/// # Errors
/// Database errors only.
pub async fn live_for_link(tx: &mut PgConnection, account: AccountId, link: PaymentLinkId) -> Result<Option<Live>> {
    Ok(live!(tx, account, "payment_link_id", link).filter(|_| rule_enabled!(Link)))
}

/// Whether a charge for an invoice or link belongs to no payment and has not been returned: then nothing else is charged
/// for it. The caller has locked the invoice or link.
///
/// # Errors
/// Database errors only.
pub async fn has_unreturned_charge(tx: &mut PgConnection, account: AccountId, paid_for: Uuid) -> Result<bool> {
    let query = sqlx::query_scalar!(r#"SELECT has_unreturned_charge($1, $2) AS "is!""#, account.uuid(), paid_for);
    Ok(query.fetch_one(tx).await?)
}

/// Counts the unsuccessful card attempts within the last hour on the page of an invoice or link, up to `limit`. The
/// caller has locked the invoice or link. `now` is the account's time. The conditions repeat the predicate
/// of the index.
///
/// # Errors
/// Database errors only.
pub async fn unsuccessful_attempts_on_page(
    tx: &mut PgConnection,
    account: AccountId,
    paid_for: Uuid,
    now: Timestamp,
    limit: i64,
) -> Result<i64> {
    Ok(sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
            SELECT FROM payments
            WHERE account_id = $1 AND coalesce(invoice_id, payment_link_id) = $2
              AND coalesce(invoice_id, payment_link_id) IS NOT NULL AND payment_method_id IS NULL
              AND (status IN ('declined', 'cancelled', 'refunded')
                   OR status = 'failed' AND failure_code = 'provider_refused')
              AND created_at > $3::timestamptz - interval '1 hour'
            LIMIT $4) tried"#,
        account.uuid(),
        paid_for,
        now,
        limit,
    )
    .fetch_one(tx)
    .await?)
}
