//! SQL of the limits.

use foundation::calendar::Date;
use foundation::time::Timestamp;
use sqlx::PgConnection;

use crate::id::{AccountId, TransactionId};

/// Locks the account's usage row, counts one more transaction of the day and returns the new count. What is read
/// afterwards stays valid until the commit. A request that waited for the lock past midnight passes the day before; the
/// stored day never goes back, so the request counts in the new day.
///
/// # Errors
/// Database errors.
pub async fn lock_usage(db: &mut PgConnection, account: AccountId, day: Date) -> Result<i32, sqlx::Error> {
    sqlx::query_scalar!(
        "INSERT INTO gateway.usage AS usage (account_id, day, transactions) VALUES ($1, $2, 1)
         ON CONFLICT (account_id) DO UPDATE
         SET day = GREATEST(usage.day, EXCLUDED.day),
             transactions = CASE WHEN EXCLUDED.day > usage.day THEN 1 ELSE usage.transactions + 1 END
         RETURNING transactions",
        account.uuid(),
        day,
    )
    .fetch_one(db)
    .await
}

/// Adds to the volume of a month and returns the new volume.
pub(super) async fn add_volume(
    db: &mut PgConnection,
    account: AccountId,
    month: Date,
    currency: &str,
    amount: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        "INSERT INTO gateway.volumes AS volumes (account_id, month, currency, amount) VALUES ($1, $2, $3, $4)
         ON CONFLICT (account_id, month, currency) DO UPDATE SET amount = volumes.amount + EXCLUDED.amount
         RETURNING amount",
        account.uuid(),
        month,
        currency,
        amount,
    )
    .fetch_one(db)
    .await
}

/// Subtracts an earlier addition from the volume of a month.
pub(super) async fn subtract_volume(
    db: &mut PgConnection,
    account: AccountId,
    month: Date,
    currency: &str,
    amount: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.volumes SET amount = amount - $4 WHERE account_id = $1 AND month = $2 AND currency = $3",
        account.uuid(),
        month,
        currency,
        amount,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Transactions from an address after `since`, counted up to `max`.
pub(super) async fn count_from_address(
    db: &mut PgConnection,
    account: AccountId,
    client_ip: &str,
    since: Timestamp,
    max: i32,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
             SELECT 1 FROM gateway.transactions WHERE account_id = $1 AND client_ip = $2 AND created_at > $3 LIMIT $4
         ) AS recent"#,
        account.uuid(),
        client_ip,
        since,
        i64::from(max),
    )
    .fetch_one(db)
    .await
}

/// Returns whether the fingerprint was free.
pub(super) async fn acquire_guard(
    db: &mut PgConnection,
    account: AccountId,
    fingerprint: &[u8],
    id: TransactionId,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    // Held until the transaction ends, however long that takes.
    let done = sqlx::query!(
        "INSERT INTO gateway.duplicate_guards AS guard (account_id, fingerprint, transaction_id, until)
         VALUES ($1, $2, $3, 'infinity')
         ON CONFLICT (account_id, fingerprint) DO UPDATE
         SET transaction_id = EXCLUDED.transaction_id, until = EXCLUDED.until, success_until = NULL
         WHERE guard.until <= $4",
        account.uuid(),
        fingerprint,
        id.uuid(),
        now,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Holds the fingerprint until `until`. If another transaction holds it, its guard is not shortened. The success is noted,
/// in case that transaction fails.
pub(super) async fn extend_guard(
    db: &mut PgConnection,
    account: AccountId,
    fingerprint: &[u8],
    id: TransactionId,
    until: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.duplicate_guards AS guard (account_id, fingerprint, transaction_id, until, success_until)
         VALUES ($1, $2, $3, $4, $4)
         ON CONFLICT (account_id, fingerprint) DO UPDATE
         SET success_until = greatest(guard.success_until, EXCLUDED.success_until),
             until = CASE WHEN guard.transaction_id = EXCLUDED.transaction_id
                     THEN greatest(guard.success_until, EXCLUDED.until) ELSE greatest(guard.until, EXCLUDED.until) END",
        account.uuid(),
        fingerprint,
        id.uuid(),
        until,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Ends the guard of a transaction that failed. An identical one that succeeded meanwhile still holds the fingerprint.
pub(super) async fn release_guard(
    db: &mut PgConnection,
    account: AccountId,
    fingerprint: &[u8],
    id: TransactionId,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.duplicate_guards SET until = coalesce(success_until, '-infinity')
         WHERE account_id = $1 AND fingerprint = $2 AND transaction_id = $3",
        account.uuid(),
        fingerprint,
        id.uuid(),
    )
    .execute(db)
    .await?;
    Ok(())
}
