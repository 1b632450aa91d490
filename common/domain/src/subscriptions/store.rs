//! SQL for subscriptions.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{Due, Status, Subscription};
use foundation::calendar::Date;
use foundation::error::Result;
use foundation::id::{AccountId, PaymentMethodId, SubscriptionId};
use foundation::time::Timestamp;

/// Selects every column of a subscription; all queries share this list.
macro_rules! select_subscriptions {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Subscription,
            "SELECT s.id, s.account_id, a.mode, s.customer_id, s.plan_id, s.payment_method_id, s.status, s.timezone,
                    s.anchor, s.current_period_start, s.current_period_end, s.next_billing_date, s.next_billing_at,
                    s.retry_at, s.cancelled_at, s.created_at
             FROM subscriptions s JOIN accounts a ON a.id = s.account_id " + $rest,
            $($arg),*
        )
    };
}

pub(super) async fn insert(tx: &mut PgConnection, new: &Subscription) -> Result<()> {
    sqlx::query!(
        "INSERT INTO subscriptions (id, account_id, customer_id, plan_id, payment_method_id, status, timezone, anchor,
                current_period_start, current_period_end, next_billing_date, next_billing_at, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        new.id.uuid(),
        new.account_id.uuid(),
        new.customer_id.uuid(),
        new.plan_id.uuid(),
        new.payment_method_id.map(PaymentMethodId::uuid),
        new.status as Status,
        new.timezone,
        new.anchor,
        new.current_period_start,
        new.current_period_end,
        new.next_billing_date as Option<Date>,
        new.next_billing_at,
        new.created_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Stores the mutable columns of a subscription.
pub(super) async fn save(tx: &mut PgConnection, subscription: &Subscription) -> Result<()> {
    sqlx::query!(
        "UPDATE subscriptions SET status = $3, current_period_start = $4, current_period_end = $5,
                next_billing_date = $6, next_billing_at = $7, retry_at = $8, cancelled_at = $9
         WHERE account_id = $1 AND id = $2",
        subscription.account_id.uuid(),
        subscription.id.uuid(),
        subscription.status as Status,
        subscription.current_period_start,
        subscription.current_period_end,
        subscription.next_billing_date as Option<Date>,
        subscription.next_billing_at,
        subscription.retry_at,
        subscription.cancelled_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn find(db: &PgPool, account: AccountId, id: SubscriptionId) -> Result<Option<Subscription>> {
    let query = select_subscriptions!("WHERE s.account_id = $1 AND s.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn lock(
    tx: &mut PgConnection,
    account: AccountId,
    id: SubscriptionId,
) -> Result<Option<Subscription>> {
    let query = select_subscriptions!(
        "WHERE s.account_id = $1 AND s.id = $2 FOR NO KEY UPDATE OF s",
        account.uuid(),
        id.uuid()
    );
    Ok(query.fetch_optional(tx).await?)
}

/// Locks the subscription and holds the account's clock. Returns `None` if another transaction has the lock or the
/// clock is being advanced.
pub(super) async fn try_lock(
    tx: &mut PgConnection,
    account: AccountId,
    id: SubscriptionId,
) -> Result<Option<Subscription>> {
    let query = select_subscriptions!(
        "WHERE s.account_id = $1 AND s.id = $2 AND hold_clock(s.account_id) FOR NO KEY UPDATE OF s SKIP LOCKED",
        account.uuid(),
        id.uuid()
    );
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn list(
    db: &PgPool,
    account: AccountId,
    after: Option<SubscriptionId>,
    limit: i64,
) -> Result<Vec<Subscription>> {
    let query = select_subscriptions!(
        "WHERE (s.account_id, s.id) < ($1, $2) AND s.account_id >= $1 ORDER BY s.account_id DESC, s.id DESC LIMIT $3",
        account.uuid(),
        after.map_or(Uuid::max(), SubscriptionId::uuid),
        limit,
    );
    Ok(query.fetch_all(db).await?)
}

pub(super) async fn due_of_all_accounts(db: &PgPool, at: Timestamp, limit: i64) -> Result<Vec<Due>> {
    let rows = sqlx::query_as!(
        Due,
        r#"SELECT id, account_id, plan_id, account_now(account_id, $1) AS "now!" FROM subscriptions
           WHERE next_billing_at IS NOT NULL AND greatest(next_billing_at, retry_at) <= $1
             AND NOT is_advancing(account_id)
           ORDER BY greatest(next_billing_at, retry_at) LIMIT $2"#,
        at,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

pub(super) async fn due_of_account(db: &PgPool, account: AccountId, now: Timestamp, limit: i64) -> Result<Vec<Due>> {
    let rows = sqlx::query_as!(
        Due,
        r#"SELECT id, account_id, plan_id, $2::timestamptz AS "now!" FROM subscriptions
           WHERE next_billing_at IS NOT NULL
             AND (account_id, greatest(next_billing_at, retry_at)) >= ($1, '-infinity')
             AND (account_id, greatest(next_billing_at, retry_at)) <= ($1, $2)
           ORDER BY account_id, greatest(next_billing_at, retry_at) LIMIT $3"#,
        account.uuid(),
        now,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

pub(super) async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    let at = sqlx::query_scalar!(
        r#"SELECT greatest(next_billing_at, retry_at) AS "at!" FROM subscriptions
           WHERE next_billing_at IS NOT NULL
             AND (account_id, greatest(next_billing_at, retry_at)) >= ($1, '-infinity')
             AND (account_id, greatest(next_billing_at, retry_at)) <= ($1, 'infinity')
           ORDER BY account_id, greatest(next_billing_at, retry_at) LIMIT 1"#,
        account.uuid(),
    )
    .fetch_optional(db)
    .await?;
    Ok(at)
}

/// `next_billing_at` is set exactly while a subscription is not cancelled.
pub(super) async fn count_running(tx: &mut PgConnection, account: AccountId, limit: i64) -> Result<i64> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
             SELECT FROM subscriptions
             WHERE next_billing_at IS NOT NULL
               AND (account_id, greatest(next_billing_at, retry_at)) >= ($1, '-infinity')
               AND (account_id, greatest(next_billing_at, retry_at)) <= ($1, 'infinity')
             ORDER BY account_id, greatest(next_billing_at, retry_at) LIMIT $2) running"#,
        account.uuid(),
        limit,
    )
    .fetch_one(tx)
    .await?;
    Ok(count)
}

pub(super) async fn oldest_due_seconds(db: &PgPool, at: Timestamp) -> Result<f64> {
    let seconds = sqlx::query_scalar!(
        r#"SELECT extract(epoch FROM $1 - greatest(next_billing_at, retry_at))::float8 AS "seconds!" FROM subscriptions
           WHERE next_billing_at IS NOT NULL AND greatest(next_billing_at, retry_at) <= $1
             AND NOT is_advancing(account_id)
           ORDER BY greatest(next_billing_at, retry_at) LIMIT 1"#,
        at,
    )
    .fetch_optional(db)
    .await?;
    Ok(seconds.unwrap_or(0.0))
}

pub(super) async fn defer(db: &PgPool, due: &Due, until: Timestamp) -> Result<()> {
    sqlx::query!(
        "UPDATE subscriptions SET retry_at = $3 WHERE account_id = $1 AND id = $2 AND next_billing_at IS NOT NULL",
        due.account_id.uuid(),
        due.id.uuid(),
        until,
    )
    .execute(db)
    .await?;
    Ok(())
}
