//! SQL for payment links.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{PaymentLink, Status};
use foundation::error::Result;
use foundation::id::{AccountId, PaymentId, PaymentLinkId};
use foundation::time::Timestamp;

/// Selects every column of a link; all queries share this list. The first argument is the SQL for the account's time:
/// `$1` itself, or `account_now` of it if `$1` is the real time.
macro_rules! select_links {
    ($now:literal, $rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            PaymentLink,
            r#"SELECT l.id, l.account_id, a.mode,
                      CASE WHEN l.expiry_due_at <= "# + $now + r#" THEN 'expired' ELSE l.status END AS "status!: Status",
                      l.amount, l.currency, l.description, l.expires_at, l.expiry_due_at, l.paid_at, l.payment_id,
                      l.cancelled_at, l.page_token, l.created_at, "# + $now + r#" AS "as_of!: Timestamp"
               FROM payment_links l JOIN accounts a ON a.id = l.account_id "# + $rest,
            $($arg),*
        )
    };
}

pub(super) async fn insert(db: &mut PgConnection, new: &PaymentLink) -> Result<()> {
    sqlx::query!(
        "INSERT INTO payment_links (id, account_id, amount, currency, description, expires_at, expiry_due_at, page_token,
                created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        new.id.uuid(),
        new.account_id.uuid(),
        new.amount,
        new.currency.code(),
        new.description,
        new.expires_at,
        new.expiry_due_at,
        new.page_token,
        new.created_at,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Stores the mutable columns of a link.
pub(super) async fn save(tx: &mut PgConnection, link: &PaymentLink) -> Result<()> {
    sqlx::query!(
        "UPDATE payment_links SET status = $3, expiry_due_at = $4, paid_at = $5, payment_id = $6, cancelled_at = $7
         WHERE account_id = $1 AND id = $2",
        link.account_id.uuid(),
        link.id.uuid(),
        link.status as Status,
        link.expiry_due_at,
        link.paid_at,
        link.payment_id.map(PaymentId::uuid),
        link.cancelled_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn find(
    db: &PgPool,
    account: AccountId,
    id: PaymentLinkId,
    now: Timestamp,
) -> Result<Option<PaymentLink>> {
    let query =
        select_links!("$1::timestamptz", "WHERE l.account_id = $2 AND l.id = $3", now, account.uuid(), id.uuid(),);
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn find_by_token(db: &mut PgConnection, token: &str, at: Timestamp) -> Result<Option<PaymentLink>> {
    let query = select_links!("account_now(l.account_id, $1)", "WHERE l.page_token = $2", at, token);
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn lock(
    tx: &mut PgConnection,
    account: AccountId,
    id: PaymentLinkId,
    now: Timestamp,
) -> Result<Option<PaymentLink>> {
    let query = select_links!(
        "$1::timestamptz",
        "WHERE l.account_id = $2 AND l.id = $3 FOR NO KEY UPDATE OF l",
        now,
        account.uuid(),
        id.uuid(),
    );
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn try_lock(
    tx: &mut PgConnection,
    account: AccountId,
    id: PaymentLinkId,
    now: Timestamp,
) -> Result<Option<PaymentLink>> {
    let query = select_links!(
        "$1::timestamptz",
        "WHERE l.account_id = $2 AND l.id = $3 FOR NO KEY UPDATE OF l SKIP LOCKED",
        now,
        account.uuid(),
        id.uuid(),
    );
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn list(
    db: &PgPool,
    account: AccountId,
    after: Option<PaymentLinkId>,
    limit: i64,
    now: Timestamp,
) -> Result<Vec<PaymentLink>> {
    let query = select_links!(
        "$1::timestamptz",
        "WHERE (l.account_id, l.id) < ($2, $3) AND l.account_id >= $2 ORDER BY l.account_id DESC, l.id DESC LIMIT $4",
        now,
        account.uuid(),
        after.map_or(Uuid::max(), PaymentLinkId::uuid),
        limit,
    );
    Ok(query.fetch_all(db).await?)
}

/// Locks overdue links of all accounts whose clock is not being advanced.
pub(super) async fn lock_due(tx: &mut PgConnection, at: Timestamp, limit: i64) -> Result<Vec<PaymentLink>> {
    let query = select_links!(
        "account_now(l.account_id, $1)",
        "WHERE l.expiry_due_at <= $1 AND hold_clock(l.account_id)
         ORDER BY l.expiry_due_at LIMIT $2 FOR NO KEY UPDATE OF l SKIP LOCKED",
        at,
        limit,
    );
    Ok(query.fetch_all(tx).await?)
}

/// Locks overdue links of one account, by its own clock. The row comparisons match the per-account index and keep the
/// planner from choosing the index over all accounts, in which the account's rows are scattered.
pub(super) async fn lock_due_of_account(
    tx: &mut PgConnection,
    account: AccountId,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<PaymentLink>> {
    let query = select_links!(
        "$1::timestamptz",
        "WHERE l.expiry_due_at IS NOT NULL AND (l.account_id, l.expiry_due_at) >= ($2, '-infinity')
           AND (l.account_id, l.expiry_due_at) <= ($2, $1)
         ORDER BY l.account_id, l.expiry_due_at LIMIT $3 FOR NO KEY UPDATE OF l SKIP LOCKED",
        now,
        account.uuid(),
        limit,
    );
    Ok(query.fetch_all(tx).await?)
}

pub(super) async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    let due = sqlx::query_scalar!(
        r#"SELECT expiry_due_at AS "due!" FROM payment_links
           WHERE expiry_due_at IS NOT NULL AND (account_id, expiry_due_at) >= ($1, '-infinity')
             AND (account_id, expiry_due_at) <= ($1, 'infinity') ORDER BY account_id, expiry_due_at LIMIT 1"#,
        account.uuid(),
    )
    .fetch_optional(db)
    .await?;
    Ok(due)
}

pub(super) async fn oldest_due_seconds(db: &PgPool, at: Timestamp) -> Result<f64> {
    let seconds = sqlx::query_scalar!(
        r#"SELECT extract(epoch FROM $1::timestamptz - l.expiry_due_at)::float8 AS "seconds!" FROM payment_links l
           WHERE l.expiry_due_at <= $1 AND NOT is_advancing(l.account_id) ORDER BY l.expiry_due_at LIMIT 1"#,
        at,
    )
    .fetch_optional(db)
    .await?;
    Ok(seconds.unwrap_or(0.0))
}
