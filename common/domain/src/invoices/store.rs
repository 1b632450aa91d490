//! SQL for invoices.

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::{Invoice, Items, Number, Status};
use foundation::calendar::PaymentTerms;
use foundation::error::Result;
use foundation::id::{
    AccountId, CustomerId, InvoiceId, PaymentId, PaymentMethodId, RecurringInvoiceId, SubscriptionId,
};
use foundation::time::Timestamp;

/// Selects every column of an invoice; all queries share this list.
macro_rules! select_invoices {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Invoice,
            "SELECT i.id, i.account_id, a.mode, i.customer_id, i.status, i.number, i.currency, i.amount, i.amount_tax,
                    i.amount_discount, i.amount_paid, i.description, i.items, i.payment_terms, i.due_at, i.issued_at,
                    i.collect_at, i.collect_payment_method_id, i.next_attempt_at, i.attempt_count,
                    i.series_started_at, i.series_failures, i.collection_exhausted, i.paid_at, i.payment_id, i.voided_at, i.recurring_invoice_id,
                    i.subscription_id, i.billing_period, i.page_token, i.created_at
             FROM invoices i JOIN accounts a ON a.id = i.account_id " + $rest,
            $($arg),*
        )
    };
}

pub(super) async fn insert(tx: &mut PgConnection, new: &Invoice) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO invoices (id, account_id, customer_id, status, currency, amount, amount_tax, amount_discount,
                description, items, payment_terms, due_at, recurring_invoice_id, subscription_id, billing_period,
                page_token, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
        new.id.uuid(),
        new.account_id.uuid(),
        new.customer_id.uuid(),
        new.status as Status,
        new.currency.code(),
        new.amount,
        new.amount_tax,
        new.amount_discount,
        new.description,
        &new.items as &Items,
        new.payment_terms as Option<PaymentTerms>,
        new.due_at,
        new.recurring_invoice_id.map(RecurringInvoiceId::uuid),
        new.subscription_id.map(SubscriptionId::uuid),
        new.billing_period,
        new.page_token,
        new.created_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Stores the mutable columns of an invoice.
pub(super) async fn save(tx: &mut PgConnection, invoice: &Invoice) -> Result<()> {
    sqlx::query!(
        "UPDATE invoices SET status = $3, number = $4, due_at = $5, issued_at = $6, collect_at = $7,
                collect_payment_method_id = $8, next_attempt_at = $9, attempt_count = $10, collection_exhausted = $11,
                amount_paid = $12, paid_at = $13, payment_id = $14, voided_at = $15, series_started_at = $16,
                series_failures = $17
         WHERE account_id = $1 AND id = $2",
        invoice.account_id.uuid(),
        invoice.id.uuid(),
        invoice.status as Status,
        invoice.number as Option<Number>,
        invoice.due_at,
        invoice.issued_at,
        invoice.collect_at,
        invoice.collect_payment_method_id.map(PaymentMethodId::uuid),
        invoice.next_attempt_at,
        invoice.attempt_count,
        invoice.collection_exhausted,
        invoice.amount_paid,
        invoice.paid_at,
        invoice.payment_id.map(PaymentId::uuid),
        invoice.voided_at,
        invoice.series_started_at,
        invoice.series_failures,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// With [`foundation::proof::Rule::LockOrder`] disabled: locks the invoices that wait for a card one by one, in reverse
/// order.
pub(super) async fn lock_waiting_in_reverse(
    tx: &mut PgConnection,
    account: AccountId,
    customer: CustomerId,
) -> Result<()> {
    let waiting = "SELECT id FROM invoices WHERE account_id = $1 AND customer_id = $2 AND status = 'scheduled'
                     AND next_attempt_at IS NULL ORDER BY id DESC";
    let waiting: Vec<Uuid> =
        sqlx::query_scalar(waiting).bind(account.uuid()).bind(customer.uuid()).fetch_all(&mut *tx).await?;
    for id in waiting {
        sqlx::query("SELECT FROM invoices WHERE id = $1 FOR NO KEY UPDATE").bind(id).execute(&mut *tx).await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Skips invoices with an attempt in flight: when it fails, its outcome reads the customer's default card again.
pub(super) async fn retry_waiting_for_card(
    tx: &mut PgConnection,
    account: AccountId,
    customer: CustomerId,
    now: Timestamp,
) -> Result<()> {
    sqlx::query!(
        "WITH waiting AS MATERIALIZED (
             SELECT i.id FROM invoices i
             WHERE i.account_id = $1 AND i.customer_id = $2 AND i.status = 'scheduled' AND i.next_attempt_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM collection_attempts t
                               WHERE t.account_id = $1 AND t.invoice_id = i.id AND t.status = 'processing')),
         -- In the order of their ids, for others lock several of them too.
         held AS MATERIALIZED (
             SELECT locked.id FROM unnest(ARRAY(SELECT id FROM waiting ORDER BY id)) AS w (id)
             CROSS JOIN LATERAL (SELECT i.id FROM invoices i
                 WHERE i.id = w.id AND i.status = 'scheduled' AND i.next_attempt_at IS NULL FOR NO KEY UPDATE) locked)
         UPDATE invoices i SET next_attempt_at = $3 FROM held WHERE i.id = held.id",
        account.uuid(),
        customer.uuid(),
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Lists the ended payment statuses exactly as the unique index of live payments does, so that the planner can use it.
pub(super) async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    let due = sqlx::query_scalar!(
        r#"SELECT i.next_attempt_at AS "due!" FROM invoices i WHERE i.next_attempt_at IS NOT NULL
             AND (i.account_id, i.next_attempt_at) >= ($1, '-infinity')
             AND (i.account_id, i.next_attempt_at) <= ($1, 'infinity')
             AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.account_id = i.account_id AND p.invoice_id = i.id
                 AND p.status NOT IN ('declined', 'failed', 'cancelled', 'expired', 'refunded'))
           ORDER BY i.account_id, i.next_attempt_at LIMIT 1"#,
        account.uuid(),
    )
    .fetch_optional(db)
    .await?;
    Ok(due)
}

pub(super) async fn oldest_due_seconds(db: &PgPool, now: Timestamp) -> Result<f64> {
    let seconds = sqlx::query_scalar!(
        r#"SELECT extract(epoch FROM $1 - next_attempt_at)::float8 AS "waited!" FROM invoices
           WHERE next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT 1"#,
        now,
    )
    .fetch_optional(db)
    .await?;
    Ok(seconds.unwrap_or(0.0))
}

/// Increments the account's counter. Concurrent callers wait for the commit, so that numbers have no gaps.
pub(super) async fn next_number(tx: &mut PgConnection, account: AccountId) -> Result<Number> {
    let number = sqlx::query_scalar!(
        "INSERT INTO invoice_numbers AS n (account_id, last) VALUES ($1, 1)
         ON CONFLICT (account_id) DO UPDATE SET last = n.last + 1 RETURNING last",
        account.uuid(),
    )
    .fetch_one(tx)
    .await?;
    Ok(number)
}

/// Every period starts with its date, so the text order of periods is their date order.
pub(super) async fn last_billing_period(
    tx: &mut PgConnection,
    account: AccountId,
    recurring: RecurringInvoiceId,
) -> Result<Option<String>> {
    let query = sqlx::query_scalar!(
        r#"SELECT billing_period AS "billing_period!" FROM invoices
           WHERE account_id = $1 AND recurring_invoice_id = $2
           ORDER BY account_id DESC, recurring_invoice_id DESC, billing_period DESC LIMIT 1"#,
        account.uuid(),
        recurring.uuid(),
    );
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn find(db: impl PgExecutor<'_>, account: AccountId, id: InvoiceId) -> Result<Option<Invoice>> {
    let query = select_invoices!("WHERE i.account_id = $1 AND i.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn lock(tx: &mut PgConnection, account: AccountId, id: InvoiceId) -> Result<Option<Invoice>> {
    let query =
        select_invoices!("WHERE i.account_id = $1 AND i.id = $2 FOR NO KEY UPDATE OF i", account.uuid(), id.uuid());
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn try_lock(tx: &mut PgConnection, account: AccountId, id: InvoiceId) -> Result<Option<Invoice>> {
    let query = select_invoices!(
        "WHERE i.account_id = $1 AND i.id = $2 FOR NO KEY UPDATE OF i SKIP LOCKED",
        account.uuid(),
        id.uuid()
    );
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn find_by_token(db: &mut PgConnection, token: &str) -> Result<Option<Invoice>> {
    let query = select_invoices!("WHERE i.page_token = $1", token);
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn list(
    db: &PgPool,
    account: AccountId,
    after: Option<InvoiceId>,
    limit: i64,
) -> Result<Vec<Invoice>> {
    let query = select_invoices!(
        "WHERE (i.account_id, i.id) < ($1, $2) AND i.account_id >= $1 ORDER BY i.account_id DESC, i.id DESC LIMIT $3",
        account.uuid(),
        after.map_or(Uuid::max(), InvoiceId::uuid),
        limit,
    );
    Ok(query.fetch_all(db).await?)
}
