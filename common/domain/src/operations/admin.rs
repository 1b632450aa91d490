//! Operations as operators see them. Only the operator's command line calls these functions.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use super::store::admin as store;
use super::{OperationKind, State};
use foundation::db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, KeyId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId, RefundId};
use foundation::money::Currency;
use foundation::time::Timestamp;
use providers::ProviderKind;

#[derive(Clone, Debug)]
pub struct OperationRow {
    pub id: OperationId,
    pub account_id: AccountId,
    pub payment_id: Option<PaymentId>,
    pub payment_method_id: Option<PaymentMethodId>,
    pub refund_id: Option<RefundId>,
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    pub kind: OperationKind,
    pub state: State,
    /// Our reference at the provider.
    pub reference: String,
    pub amount: Option<i64>,
    pub currency: Option<Currency>,
    /// The fencing token of the latest claim.
    pub fence: i64,
    pub lease_until: Option<Timestamp>,
    /// When it is handed out next. `None` if it has ended or needs manual review.
    pub next_push_at: Option<Timestamp>,
    /// When a request was first sent.
    pub first_sent_at: Option<Timestamp>,
    /// When a request was last sent.
    pub last_sent_at: Option<Timestamp>,
    /// The provider's reference for the charge that it follows.
    pub target_ref: Option<String>,
    /// The provider's reference for the transaction.
    pub provider_ref: Option<String>,
    pub failure: Option<String>,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub age_seconds: f64,
    /// Whether the last request sent can no longer have an effect.
    pub last_request_is_dead: bool,
    /// Whether the lease has not expired.
    pub is_held: bool,
    /// Seconds since a request was first sent; 0 if none was.
    pub sent_for_seconds: f64,
    /// The `Request-Id` of the request that created it.
    pub request_id: Option<String>,
    /// The API key of that request.
    pub requested_by: Option<KeyId>,
    /// Whether the system itself created it.
    pub by_system: bool,
    /// Whether it collects an invoice.
    pub background: bool,
    /// How often it was handed out.
    pub pushes: i32,
}

impl OperationRow {
    /// Whether an operator must determine how it ended.
    pub fn needs_manual_review(&self) -> bool {
        self.state == State::Unknown && self.next_push_at.is_none()
    }
}

/// Which operations to list.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Only operations of unknown outcome; otherwise all that have not ended.
    pub unknown: bool,
    pub account: Option<AccountId>,
    pub kind: Option<OperationKind>,
    pub state: Option<State>,
    /// Order by the number of times an operation was handed out, highest first.
    pub most_handed_out: bool,
    pub limit: i64,
}

/// Lists operations that have not ended, oldest first.
///
/// # Errors
/// Database errors only.
pub async fn list(db: &PgPool, filter: Filter) -> Result<Vec<OperationRow>> {
    store::list(db, filter).await
}

/// Delays the next handout of an operation by `delay`. It stays due, and a worker that holds its lease continues.
/// Returns its account.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if it has ended or needs manual review.
pub async fn hold(tx: &mut PgConnection, id: OperationId, delay: Duration) -> Result<AccountId> {
    let held = store::hold(tx, id, delay).await?;
    or_conflict(tx, id, held, "the operation has ended or needs manual review, so it is not handed out").await
}

/// Stops processing an operation for good: its outcome becomes unknown and needs manual review. Used after a restore,
/// when the request may have been executed in the lost interval. Returns its account.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if it has ended, is leased by a worker, saves a card, or its payment has
/// another operation of unknown outcome.
pub async fn withhold(tx: &mut PgConnection, id: OperationId) -> Result<AccountId> {
    let withheld = match store::withhold(&mut *tx, id).await {
        Err(Error::Database(error)) if db::violated_constraint(&error) == Some("operations_one_in_flight") => {
            return Err(Error::conflict("another operation of the payment has an unknown outcome: resolve that first"));
        }
        withheld => withheld?,
    };
    or_conflict(tx, id, withheld, "the operation has ended, is leased by a worker, or saves a card").await
}

async fn or_conflict(
    tx: &mut PgConnection,
    id: OperationId,
    account: Option<AccountId>,
    reason: &'static str,
) -> Result<AccountId> {
    match account {
        Some(account) => Ok(account),
        None if store::exists(tx, id).await? => Err(Error::conflict(reason)),
        None => Err(Error::no_such("operation", id)),
    }
}

/// Returns one operation.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn find(db: &PgPool, id: OperationId) -> Result<OperationRow> {
    store::find(db, id).await?.ok_or_else(|| Error::no_such("operation", id))
}

/// Returns all operations of a payment, oldest first.
///
/// # Errors
/// Database errors only.
pub async fn of_payment(db: &PgPool, account: AccountId, payment: PaymentId) -> Result<Vec<OperationRow>> {
    store::of_payment(db, account, payment).await
}

/// Returns what already has this provider reference, apart from the operation itself: a payment, an anomaly, or another
/// operation of the same payment.
///
/// # Errors
/// Database errors only.
pub async fn owner_of_reference(db: &PgPool, operation: &OperationRow, provider_ref: &str) -> Result<Option<String>> {
    store::owner_of_reference(db, operation, provider_ref).await
}
