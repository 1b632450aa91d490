//! Limits of an account (codes 17 to 20) and duplicate detection (26). They are checked and counted in the transaction
//! that enters a charge, under the lock of the account's usage row, so that concurrent charges cannot exceed a limit
//! together.

use std::time::Duration;

use foundation::calendar::Date;
use foundation::time::Timestamp;
use sqlx::PgConnection;

use crate::accounts::{Account, CryptoKeys};
use crate::failure::{Code, Result};
use crate::id::{AccountId, TransactionId};
use crate::transactions::NewCharge;

/// How long a success without a reference blocks an identical charge.
pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
/// The window of code 20.
const ADDRESS_WINDOW: Duration = Duration::from_secs(3600);

/// The day and month in which a transaction counts, in the account's time zone.
#[derive(Clone, Copy, Debug)]
pub struct Period {
    pub day: Date,
    /// The first day of the month.
    pub month: Date,
}

impl Period {
    pub fn at(account: &Account, now: Timestamp) -> Self {
        let day = account.time_zone.date_at(now);
        let month = format!("{}-01", &day.to_string()[..7]).parse().expect("every month has a first day");
        Self { day, month }
    }
}

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

/// Codes 17 to 20. `count` is the result of [`lock_usage`].
///
/// # Errors
/// The code of the first limit that is exceeded.
pub async fn check(
    db: &mut PgConnection,
    account: &Account,
    new: &NewCharge,
    count: i32,
    period: Period,
    now: Timestamp,
) -> Result<()> {
    let amount = new.total().get();
    if amount > account.sale_limit {
        return Err(Code::SaleLimit.refuse());
    }
    if new.kind.is_charge()
        && add_volume(db, account.id, period.month, &new.currency, amount).await? > account.monthly_limit
    {
        return Err(Code::MonthlyLimit.refuse());
    }
    if count > account.daily_transactions {
        return Err(Code::TransactionLimit.refuse());
    }
    if let Some(ip) = new.client_ip {
        let since =
            Timestamp::from_millisecond(now.as_millisecond() - ADDRESS_WINDOW.as_millis() as i64).unwrap_or(now);
        let max = account.hourly_per_address;
        if count_from_network(db, account.id, &ip.to_string(), since, max).await? >= i64::from(max) {
            return Err(Code::AddressLimit.refuse());
        }
    }
    Ok(())
}

/// Reserves the fingerprint of a transaction without a reference while it is in progress.
///
/// # Errors
/// 26 if another transaction holds it.
pub async fn acquire_guard(
    db: &mut PgConnection,
    account: AccountId,
    fingerprint: &[u8],
    id: TransactionId,
    now: Timestamp,
) -> Result<()> {
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
    if done.rows_affected() == 1 { Ok(()) } else { Err(Code::Duplicate.refuse()) }
}

/// After a success: keeps an identical charge from being entered for [`DUPLICATE_WINDOW`]. If another transaction holds
/// the fingerprint, its guard is not shortened. The success is noted, in case that transaction fails.
///
/// # Errors
/// Database errors.
pub async fn extend_guard(
    db: &mut PgConnection,
    account: AccountId,
    fingerprint: &[u8],
    id: TransactionId,
    now: Timestamp,
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
        now.plus(DUPLICATE_WINDOW),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// After a failure: restores the volume and releases the fingerprint.
///
/// # Errors
/// Database errors.
pub async fn release(
    db: &mut PgConnection,
    account: AccountId,
    id: TransactionId,
    volume: Option<(Date, &str, i64)>,
    fingerprint: &[u8],
) -> Result<(), sqlx::Error> {
    if let Some((month, currency, amount)) = volume {
        subtract_volume(db, account, month, currency, amount).await?;
    }
    release_guard(db, account, fingerprint, id).await
}

/// A keyed hash of kind, card, requested amount and currency: equal for identical charges, useless without the key.
pub fn fingerprint(crypto: &CryptoKeys, new: &NewCharge) -> [u8; 32] {
    let number = new.funding.number.expose();
    crypto.pepper.hash(&format!("charge:{}:{number}:{}:{}", new.kind.name(), new.amount, new.currency))
}

/// Adds to the volume of a month and returns the new volume.
async fn add_volume(
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
async fn subtract_volume(
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

/// Transactions from the network of an address after `since`, counted up to `max`. The holder of an IPv6 address has
/// all of its /64.
async fn count_from_network(
    db: &mut PgConnection,
    account: AccountId,
    client_ip: &str,
    since: Timestamp,
    max: i32,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
             SELECT 1 FROM gateway.transactions
             WHERE account_id = $1 AND client_ip IS NOT NULL
               AND gateway.client_network(client_ip) = gateway.client_network($2) AND created_at > $3 LIMIT $4
         ) AS recent"#,
        account.uuid(),
        client_ip,
        since,
        i64::from(max),
    )
    .fetch_one(db)
    .await
}

/// Ends the guard of a transaction that failed. An identical one that succeeded meanwhile still holds the fingerprint.
async fn release_guard(
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
