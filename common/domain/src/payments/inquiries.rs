//! Inquiries: asking the provider whether a charge has settled or its authorization has expired.

use sqlx::PgPool;

use super::store;
use crate::accounts::{AccountTime, Scope};
use foundation::error::Result;
use foundation::id::{AccountId, PaymentId, ProviderAccountId};
use foundation::time::Timestamp;
use providers::ProviderKind;

/// Maximum number of inquiries that one scheduler tick hands out.
pub const INQUIRY_BATCH: i64 = 500;

/// Returns the payments whose inquiry is due and moves their `inquiry_at` forward. The moved time is the claim, so a
/// crash of the worker delays the inquiry by half a minute.
///
/// # Errors
/// Database errors only.
pub async fn take_due_inquiries(db: &PgPool, scope: Scope) -> Result<Vec<PaymentId>> {
    match scope {
        Scope::AllAccounts(now) => store::claim_due_inquiries(db, now, INQUIRY_BATCH).await,
        Scope::Account(account, now) | Scope::Advance(account, now) => {
            store::claim_due_inquiries_of_account(db, account, now, INQUIRY_BATCH).await
        }
    }
}

/// What a charge is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InquiryKind {
    /// A captured payment waits for settlement.
    Settlement,
    /// An authorization waits for its expiry.
    Expiry,
}

/// Returns up to `limit` payments of one account whose inquiry is due by the account's time, without claiming them: the
/// advance of a test clock runs the inquiries itself and calls [`postpone_inquiries`] for those that changed nothing.
///
/// # Errors
/// Database errors only.
pub async fn due_inquiries(
    db: &PgPool,
    account: AccountId,
    now: Timestamp,
    kind: InquiryKind,
    limit: i64,
) -> Result<Vec<PaymentId>> {
    store::due_inquiries(db, account, now, kind == InquiryKind::Settlement, limit).await
}

/// Postpones inquiries that changed nothing. An advance jumps from one due time to the next, so without a growing delay
/// a charge that stays open for a year of account time would cause a million inquiries. The delay grows with the time
/// since the capture or since the authorization ran out.
///
/// # Errors
/// Database errors only.
pub async fn postpone_inquiries(db: &PgPool, account: AccountId, ids: &[PaymentId], now: Timestamp) -> Result<()> {
    store::postpone_inquiries(db, account, ids, now, ProviderKind::LONGEST_AUTHORIZATION).await
}

/// Returns when the next inquiry of an account is due, by the account's time.
///
/// # Errors
/// Database errors only.
pub async fn next_inquiry(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    store::next_inquiry(db, account).await
}

/// A payment whose charge may have settled or expired, with the data to query the provider.
#[derive(Debug)]
pub struct Inquiry {
    pub id: PaymentId,
    pub account_id: AccountId,
    pub time: AccountTime,
    /// The account's time when this was read.
    pub now: Timestamp,
    /// The database's time when this was read: everything in our books by then must be known to the provider.
    pub read_at: Timestamp,
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    /// The provider's reference for the charge.
    pub provider_ref: String,
    /// Our reference at the provider.
    pub reference: String,
    pub created_at: Timestamp,
    /// When money was first captured.
    pub captured_at: Option<Timestamp>,
}

/// Returns what is needed to query the provider about a payment's charge; `None` if no inquiry is needed. `now` is the
/// system's time.
///
/// # Errors
/// Database errors only.
pub async fn inquiry(db: &PgPool, id: PaymentId, now: Timestamp) -> Result<Option<Inquiry>> {
    store::inquiry(db, id, now).await
}
