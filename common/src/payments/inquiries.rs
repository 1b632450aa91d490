//! Whose charges may have settled or expired: when the provider is asked, and where.

use sqlx::PgPool;

use super::store;
use crate::accounts::{AccountTime, Scope};
use crate::error::Result;
use crate::id::{AccountId, PaymentId, ProviderAccountId};
use crate::providers::ProviderKind;
use crate::time::Timestamp;

/// How many inquiries one tick of the scheduler hands out.
pub const INQUIRY_BATCH: i64 = 500;

/// Takes the payments whose provider is to be asked how the charge stands, and moves their next turn on: the claim is the
/// moved date, so a worker that dies costs half a minute.
///
/// # Errors
/// Only the database's.
pub async fn take_due_inquiries(db: &PgPool, scope: Scope) -> Result<Vec<PaymentId>> {
    match scope {
        Scope::Everyone(now) => store::take_everyones_inquiries(db, now, INQUIRY_BATCH).await,
        Scope::Account(account, now) | Scope::Advance(account, now) => {
            store::take_inquiries_of(db, account, now, INQUIRY_BATCH).await
        }
    }
}

/// What a charge is on its way to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Captured money, to settlement.
    Settlement,
    /// Held money, to the end of its hold.
    Expiry,
}

/// Whose charges may be on their way no longer: payments of one account, at its own time, `limit` at most. They are taken by
/// nobody: whoever advances a clock asks for them, and [`postpone_inquiries`] what brought no news.
///
/// # Errors
/// Only the database's.
pub async fn due_inquiries(
    db: &PgPool,
    account: AccountId,
    now: Timestamp,
    awaited: Awaited,
    limit: i64,
) -> Result<Vec<PaymentId>> {
    store::due_inquiries(db, account, now, awaited == Awaited::Settlement, limit).await
}

/// Moves on what is still due after it was asked for. An advance leaps from turn to turn, so what brings no news for a year of
/// an account's time would be asked for a million times: it is asked for the less often, the longer ago it was captured, or its
/// hold has run out.
///
/// # Errors
/// Only the database's.
pub async fn postpone_inquiries(db: &PgPool, account: AccountId, ids: &[PaymentId], now: Timestamp) -> Result<()> {
    store::postpone_inquiries(db, account, ids, now, ProviderKind::LONGEST_AUTHORIZATION).await
}

/// When the next inquiry of an account is due, by its own time.
///
/// # Errors
/// Only the database's.
pub async fn next_inquiry(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    store::next_inquiry(db, account).await
}

/// A payment whose charge may have settled or expired, and where to ask.
#[derive(Debug)]
pub struct Inquiry {
    /// The payment.
    pub id: PaymentId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The account's time.
    pub time: AccountTime,
    /// What time it was there when this was read.
    pub now: Timestamp,
    /// When this was read, by the database's clock: what our books had by then the provider must know.
    pub asked_at: Timestamp,
    /// Where to ask.
    pub provider_account_id: ProviderAccountId,
    /// Who is there.
    pub provider: ProviderKind,
    /// The provider's name for the charge.
    pub provider_ref: String,
    /// Our name for it.
    pub reference: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When money was first taken.
    pub captured_at: Option<Timestamp>,
}

/// Where to ask how a payment's charge stands; `None` if there is nothing left to ask. `now` is everyone's time.
///
/// # Errors
/// Only the database's.
pub async fn inquiry(db: &PgPool, id: PaymentId, now: Timestamp) -> Result<Option<Inquiry>> {
    store::inquiry(db, id, now).await
}
