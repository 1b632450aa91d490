//! What an account may do in a while: codes 17 to 20, and 26 for what looks like a repetition. All of it is asked and noted in
//! the transaction that enters, under the account's row of usage, so no two entries pass a limit together.

mod store;

use std::time::Duration;

use common::calendar::Date;
use common::time::Timestamp;
use sqlx::PgConnection;

use crate::accounts::{Account, Vaulting};
use crate::failure::{Code, Result};
use crate::id::{AccountId, TransactionId};
use crate::transactions::NewCharge;

/// For so long a success is not to be repeated without a reference.
pub const REPEATS_AFTER: Duration = Duration::from_secs(120);
/// The window of code 20.
const HOUR: Duration = Duration::from_secs(3600);

/// The day and the month that a transaction counts in, in the account's zone.
#[derive(Clone, Copy, Debug)]
pub struct Period {
    /// The day.
    pub day: Date,
    /// The first day of the month.
    pub month: Date,
}

impl Period {
    /// Of this instant.
    pub fn at(account: &Account, now: Timestamp) -> Self {
        let day = account.time_zone.date_at(now);
        let month = format!("{}-01", &day.to_string()[..7]).parse().expect("every month has a first day");
        Self { day, month }
    }
}

/// Waits for the account's turn and counts one more transaction of the day. What is read after it stands until the commit.
///
/// # Errors
/// Only the database's.
pub async fn turn(db: &mut PgConnection, account: AccountId, period: Period) -> Result<i32> {
    Ok(store::count(db, account, period.day).await?)
}

/// Codes 17 to 20. `count` is what [`turn`] said.
///
/// # Errors
/// The code of the first limit that is passed.
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
        let since = Timestamp::from_millisecond(now.as_millisecond() - HOUR.as_millis() as i64).unwrap_or(now);
        let most = account.hourly_per_address;
        if store::from_address(db, account.id, &ip.to_string(), since, most).await? >= i64::from(most) {
            return Err(Code::AddressLimit.refuse());
        }
    }
    Ok(())
}

/// Takes the place that a transaction without a reference must have for itself while it is under way.
///
/// # Errors
/// 26 if another has it.
pub async fn guard(
    db: &mut PgConnection,
    account: AccountId,
    fingerprint: &[u8],
    id: TransactionId,
    now: Timestamp,
) -> Result<()> {
    match store::take_guard(db, account, fingerprint, id, now).await? {
        true => Ok(()),
        false => Err(Code::Duplicate.refuse()),
    }
}

/// After a success: nothing like it for a while.
///
/// # Errors
/// Only the database's.
pub async fn keep_guard(
    db: &mut PgConnection,
    account: AccountId,
    fingerprint: &[u8],
    id: TransactionId,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    store::keep_guard(db, account, fingerprint, id, now.plus(REPEATS_AFTER)).await
}

/// After a failure: the volume and the place are free again.
///
/// # Errors
/// Only the database's.
pub async fn give_back(
    db: &mut PgConnection,
    account: AccountId,
    id: TransactionId,
    volume: Option<(Date, &str, i64)>,
    fingerprint: Option<&[u8]>,
) -> Result<(), sqlx::Error> {
    if let Some((month, currency, amount)) = volume {
        store::take_volume(db, account, month, currency, amount).await?;
    }
    if let Some(fingerprint) = fingerprint {
        store::drop_guard(db, account, fingerprint, id).await?;
    }
    Ok(())
}

/// Kind, card, amount asked and currency under a key: alike for what is alike, and of no use without the key.
pub fn fingerprint(vaulting: &Vaulting, new: &NewCharge) -> [u8; 32] {
    let number = new.funding.number.expose();
    vaulting.pepper.hash(&format!("charge:{}:{number}:{}:{}", new.kind.name(), new.amount, new.currency))
}
