//! Read-only queries for operators: what is delayed, and how much of the limits is used.

use foundation::calendar::Date;
use foundation::time::Timestamp;
use serde::Serialize;
use sqlx::PgPool;

use crate::id::TransactionId;

/// A transaction without a final state.
#[derive(Debug, Serialize)]
pub struct Unfinished {
    #[serde(serialize_with = "printed")]
    id: TransactionId,
    username: String,
    kind: String,
    state: String,
    /// In minor units.
    amount: i64,
    currency: String,
    reference_id: Option<String>,
    created_at: Timestamp,
    recover_at: Option<Timestamp>,
}

fn printed<S: serde::Serializer>(id: &TransactionId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// Unfinished transactions, in the order in which their recovery is due.
///
/// # Errors
/// Database errors.
pub async fn unfinished(db: &PgPool, username: Option<&str>, limit: i64) -> Result<Vec<Unfinished>, sqlx::Error> {
    sqlx::query_as!(
        Unfinished,
        r#"SELECT t.id AS "id: TransactionId", a.username, t.kind::text AS "kind!", t.state::text AS "state!", t.amount, t.currency,
                  t.reference_id, t.created_at, t.recover_at
           FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id
           WHERE t.recover_at IS NOT NULL AND ($1::text IS NULL OR a.username = $1) ORDER BY t.recover_at LIMIT $2"#,
        username,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Receipts that are still to be sent.
#[derive(Debug, Serialize)]
pub struct Receipts {
    /// Counted up to 100,000.
    pending: i64,
    oldest: Option<Timestamp>,
    next_try: Option<Timestamp>,
    most_tries: Option<i32>,
}

/// Number of pending receipts, the oldest one, the next attempt, and the highest number of attempts.
///
/// # Errors
/// Database errors.
pub async fn receipts(db: &PgPool) -> Result<Receipts, sqlx::Error> {
    sqlx::query_as!(
        Receipts,
        r#"SELECT count(*) AS "pending!", min(created_at) AS oldest, min(due_at) AS next_try, max(tries) AS most_tries
           FROM (SELECT created_at, due_at, tries FROM gateway.receipts WHERE due_at IS NOT NULL
                 ORDER BY due_at LIMIT 100000) waiting"#,
    )
    .fetch_one(db)
    .await
}

/// Used limits of an account. Amounts are in minor units.
#[derive(Debug, Serialize)]
pub struct LimitUsage {
    username: String,
    day: Option<Date>,
    transactions: Option<i32>,
    daily_transactions: i32,
    month: Option<Date>,
    currency: Option<String>,
    amount: Option<i64>,
    monthly_limit: i64,
    sale_limit: i64,
}

/// The accounts closest to a limit.
///
/// # Errors
/// Database errors.
pub async fn limits(db: &PgPool, username: Option<&str>, limit: i64) -> Result<Vec<LimitUsage>, sqlx::Error> {
    sqlx::query_as!(
        LimitUsage,
        r#"SELECT a.username, u.day AS "day?", u.transactions AS "transactions?", a.daily_transactions, v.month AS "month?",
                  v.currency AS "currency?", v.amount AS "amount?", a.monthly_limit, a.sale_limit
           FROM gateway.accounts a LEFT JOIN gateway.usage u ON u.account_id = a.id
           LEFT JOIN gateway.volumes v ON v.account_id = a.id AND v.month >= date_trunc('month', now() - interval '1 day')
           WHERE $1::text IS NULL OR a.username = $1
           ORDER BY greatest(u.transactions::numeric / a.daily_transactions, v.amount::numeric / a.monthly_limit) DESC NULLS LAST
           LIMIT $2"#,
        username,
        limit,
    )
    .fetch_all(db)
    .await
}
