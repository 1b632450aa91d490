//! Lists of due work for the runbooks. All queries are read-only.

use serde::Serialize;
use sqlx::PgPool;

use domain::accounts::Mode;
use foundation::calendar::Date;
use foundation::error::Result;
use foundation::id::{AccountId, InvoiceId, SubscriptionId};
use foundation::money::Currency;
use foundation::time::Timestamp;

/// Counts stop here.
const MAX_COUNT: i64 = 100_000;

/// Due work of one kind.
#[derive(Debug, Serialize)]
pub struct DueWork {
    work: String,
    /// Counted up to 100,000.
    due: i64,
    oldest: Option<Timestamp>,
}

/// Returns due billing work by kind.
///
/// # Errors
/// Database errors only.
pub async fn billing(db: &PgPool) -> Result<Vec<DueWork>> {
    let rows = sqlx::query_as!(
        DueWork,
        r#"SELECT 'collections' AS "work!", count(*) AS "due!", min(at) AS oldest FROM (
               SELECT next_attempt_at AS at FROM invoices WHERE next_attempt_at <= (SELECT clock_timestamp())
               ORDER BY next_attempt_at LIMIT $1) d
           UNION ALL SELECT 'subscriptions', count(*), min(at) FROM (
               SELECT greatest(next_billing_at, retry_at) AS at FROM subscriptions
               WHERE next_billing_at IS NOT NULL AND greatest(next_billing_at, retry_at) <= (SELECT clock_timestamp())
               ORDER BY greatest(next_billing_at, retry_at) LIMIT $1) d
           UNION ALL SELECT 'recurring_invoices', count(*), min(at) FROM (
               SELECT next_run_at AS at FROM recurring_invoices WHERE next_run_at <= (SELECT clock_timestamp())
               ORDER BY next_run_at LIMIT $1) d
           UNION ALL SELECT 'payment_links', count(*), min(at) FROM (
               SELECT expiry_due_at AS at FROM payment_links WHERE expiry_due_at <= (SELECT clock_timestamp())
               ORDER BY expiry_due_at LIMIT $1) d"#,
        MAX_COUNT,
    );
    Ok(rows.fetch_all(db).await?)
}

/// Unfinished operations in one state, without those in manual review.
#[derive(Debug, Serialize)]
pub struct DueOperations {
    state: String,
    /// Whether they collect invoices, with no client waiting.
    background: bool,
    /// Number among the 100,000 due first.
    count: i64,
    oldest: Option<Timestamp>,
    next_push: Option<Timestamp>,
    /// Number held by a worker.
    held: i64,
}

/// Returns the unfinished operations by state.
///
/// # Errors
/// Database errors only.
pub async fn operations(db: &PgPool) -> Result<Vec<DueOperations>> {
    let rows = sqlx::query_as!(
        DueOperations,
        r#"SELECT state::text AS "state!", background, count(*) AS "count!", min(created_at) AS oldest,
                  min(next_push_at) AS next_push, count(*) FILTER (WHERE lease_until > clock_timestamp()) AS "held!"
           FROM (SELECT state, background, created_at, next_push_at, lease_until FROM operations
                 WHERE next_push_at IS NOT NULL ORDER BY next_push_at LIMIT $1) o
           GROUP BY state, background ORDER BY 4"#,
        MAX_COUNT,
    );
    Ok(rows.fetch_all(db).await?)
}

/// A subscription whose cycle could not be billed and was deferred.
#[derive(Debug, Serialize)]
pub struct DeferredCycle {
    subscription: SubscriptionId,
    account: AccountId,
    account_name: String,
    mode: Mode,
    timezone: String,
    next_billing_date: Option<Date>,
    retry_at: Option<Timestamp>,
}

/// Lists deferred cycles, the next retry first.
///
/// # Errors
/// Database errors only.
pub async fn deferred_cycles(db: &PgPool, limit: i64) -> Result<Vec<DeferredCycle>> {
    let rows = sqlx::query_as!(
        DeferredCycle,
        r#"SELECT s.id AS subscription, a.id AS account, a.name AS account_name, a.mode, s.timezone, s.next_billing_date, s.retry_at
           FROM subscriptions s JOIN accounts a ON a.id = s.account_id
           WHERE s.next_billing_at IS NOT NULL AND s.retry_at > s.next_billing_at
             AND greatest(s.next_billing_at, s.retry_at) > (SELECT clock_timestamp())
             AND greatest(s.next_billing_at, s.retry_at) < (SELECT clock_timestamp() + interval '2 hours')
           ORDER BY greatest(s.next_billing_at, s.retry_at) LIMIT $1"#,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

/// An invoice due for collection.
#[derive(Debug, Serialize)]
pub struct DueInvoice {
    account: AccountId,
    account_name: String,
    mode: Mode,
    invoice: InvoiceId,
    number: Option<String>,
    customer_email: String,
    customer: Option<String>,
    amount: i64,
    currency: Currency,
    billing_period: Option<String>,
    issued_at: Option<Timestamp>,
    next_attempt_at: Option<Timestamp>,
}

/// Lists invoices whose next attempt is due, of one account or of all, oldest first.
///
/// # Errors
/// Database errors only.
pub async fn collections(db: &PgPool, account: Option<AccountId>, limit: i64) -> Result<Vec<DueInvoice>> {
    let rows = sqlx::query_as!(
        DueInvoice,
        r#"SELECT a.id AS account, a.name AS account_name, a.mode, i.id AS invoice, i.number::text AS number,
                  c.email AS customer_email, c.name AS customer, i.amount, i.currency, i.billing_period, i.issued_at, i.next_attempt_at
           FROM invoices i JOIN accounts a ON a.id = i.account_id
           JOIN customers c ON c.account_id = i.account_id AND c.id = i.customer_id
           WHERE i.next_attempt_at <= (SELECT clock_timestamp()) AND ($1::uuid IS NULL OR i.account_id = $1)
           ORDER BY i.next_attempt_at LIMIT $2"#,
        account.map(AccountId::uuid),
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}
