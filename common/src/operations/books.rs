//! Operations as a provider's books are compared with them.

use std::time::Duration;

use sqlx::PgPool;

use super::store::books as store;
use super::{Kind, State};
use crate::error::Result;
use crate::id::{AccountId, OperationId, PaymentId, ProviderAccountId};
use crate::money::{Currency, Money};
use crate::providers::Entry;
use crate::time::Timestamp;

/// What our books say of an operation.
#[derive(Clone, Debug)]
pub struct Known {
    /// The operation.
    pub id: OperationId,
    /// Our name for it at the provider.
    pub reference: String,
    /// What was asked.
    pub kind: Kind,
    /// How far it has come.
    pub state: State,
    /// The provider's name for what it did, if it did.
    pub provider_ref: Option<String>,
    /// The provider's name for the charge that it follows.
    pub target_ref: Option<String>,
    /// The payment that it is about.
    pub payment_id: Option<PaymentId>,
    /// What was approved, of a charge; what was asked for, of others.
    pub amount: Option<i64>,
    /// Of what.
    pub currency: Option<Currency>,
    /// When it was sent for the first time.
    pub first_sent_at: Option<Timestamp>,
    /// When it was sent last, or its outcome was written, whichever is later.
    pub settled_at: Option<Timestamp>,
    /// When its outcome was written.
    pub finished_at: Option<Timestamp>,
    /// Seconds since it was written.
    pub age_seconds: f64,
    /// Whether a worker has it.
    pub is_held: bool,
}

impl Known {
    /// Whether its outcome may be about to be written: it was written so short a time ago, or a worker has it.
    pub fn is_under_way(&self, age: Duration) -> bool {
        !self.state.is_final() && (self.is_held || self.age_seconds < age.as_secs_f64())
    }

    /// What a provider's line about it would be; none of a saved card.
    pub const fn entry(&self) -> Option<Entry> {
        match self.kind {
            Kind::Sale | Kind::Authorize => Some(Entry::Charge),
            Kind::Capture => Some(Entry::Capture),
            Kind::Void | Kind::Reverse => Some(Entry::Void),
            Kind::Refund => Some(Entry::Refund),
            Kind::StoreCard => None,
        }
    }

    /// Whether it is the charge of this name, or follows it.
    pub fn target_ref_is(&self, charge: &str) -> bool {
        let named =
            self.target_ref.as_deref().or(self.provider_ref.as_deref().filter(|_| self.entry() == Some(Entry::Charge)));
        named == Some(charge)
    }

    /// How much, and of what.
    pub fn money(&self) -> Option<Money> {
        self.amount.zip(self.currency).map(|(minor, currency)| Money { minor, currency })
    }
}

/// The operations with these references at a provider account.
///
/// # Errors
/// Only the database's.
pub async fn by_reference(db: &PgPool, at: ProviderAccountId, references: &[String]) -> Result<Vec<Known>> {
    if references.is_empty() {
        return Ok(vec![]);
    }
    store::by_reference(db, at, references).await
}

/// All operations of these payments.
///
/// # Errors
/// Only the database's.
pub async fn of_payments(db: &PgPool, account: AccountId, payments: &[PaymentId]) -> Result<Vec<Known>> {
    if payments.is_empty() {
        return Ok(vec![]);
    }
    let payments: Vec<_> = payments.iter().map(|payment| payment.uuid()).collect();
    store::of_payments(db, account, &payments).await
}

/// What was done at a provider account by our books from one instant to another, in the order in which that was written; so much
/// at most. Saved cards are left out.
///
/// # Errors
/// Only the database's.
pub async fn succeeded(
    db: &PgPool,
    at: ProviderAccountId,
    from: Timestamp,
    to: Timestamp,
    limit: i64,
) -> Result<Vec<Known>> {
    store::succeeded(db, at, from, to, limit).await
}

/// The operations whose references lie between two, in their order; so many at most.
///
/// # Errors
/// Only the database's.
pub async fn page(db: &PgPool, at: ProviderAccountId, after: &str, before: &str, limit: i64) -> Result<Vec<Known>> {
    store::page(db, at, after, before, limit).await
}

/// What our books say of a payment as a whole, read at one instant with its operations.
#[derive(Clone, Debug)]
pub struct Whole {
    /// What was captured.
    pub captured: i64,
    /// What was refunded.
    pub refunded: i64,
    /// Whether all that was asked for had come to its end before then.
    pub is_at_rest: bool,
    /// Its operations.
    pub operations: Vec<Known>,
}

/// A payment with its operations; `rests_since` is an instant of the database's clock before which all must have ended for it to be at
/// rest. None if it has no operation.
///
/// # Errors
/// Only the database's.
pub async fn whole(
    db: &PgPool,
    account: AccountId,
    payment: PaymentId,
    rests_since: Timestamp,
) -> Result<Option<Whole>> {
    store::whole(db, account, payment, rests_since).await
}
