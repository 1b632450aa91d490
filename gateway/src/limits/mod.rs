//! Limits of an account (codes 17 to 20) and duplicate detection (26). They are checked and counted in the transaction
//! that enters a charge, under the lock of the account's usage row, so that concurrent charges cannot exceed a limit
//! together.

mod store;

use std::time::Duration;

use foundation::calendar::Date;
use foundation::time::Timestamp;
use sqlx::PgConnection;

use crate::accounts::{Account, CryptoKeys};
use crate::failure::{Code, Result};
use crate::id::{AccountId, TransactionId};
use crate::transactions::NewCharge;

pub use store::lock_usage;

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
        && store::add_volume(db, account.id, period.month, &new.currency, amount).await? > account.monthly_limit
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
        if store::count_from_address(db, account.id, &ip.to_string(), since, max).await? >= i64::from(max) {
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
    match store::acquire_guard(db, account, fingerprint, id, now).await? {
        true => Ok(()),
        false => Err(Code::Duplicate.refuse()),
    }
}

/// After a success: keeps an identical charge from being entered for [`DUPLICATE_WINDOW`].
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
    store::extend_guard(db, account, fingerprint, id, now.plus(DUPLICATE_WINDOW)).await
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
        store::subtract_volume(db, account, month, currency, amount).await?;
    }
    store::release_guard(db, account, fingerprint, id).await
}

/// A keyed hash of kind, card, requested amount and currency: equal for identical charges, useless without the key.
pub fn fingerprint(crypto: &CryptoKeys, new: &NewCharge) -> [u8; 32] {
    let number = new.funding.number.expose();
    crypto.pepper.hash(&format!("charge:{}:{number}:{}:{}", new.kind.name(), new.amount, new.currency))
}
