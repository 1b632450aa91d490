//! What an operator sees of operations. Only the operator's command line calls these.

use sqlx::PgPool;

use super::store::admin as store;
use super::{Kind, State};
use crate::error::{Error, Result};
use crate::id::{AccountId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId, RefundId};
use crate::money::Currency;
use crate::providers::ProviderKind;
use crate::time::Timestamp;

/// An operation as an operator sees it.
#[derive(Clone, Debug)]
pub struct OperationRow {
    /// Its id.
    pub id: OperationId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The payment that it is about.
    pub payment_id: Option<PaymentId>,
    /// The card that it saves.
    pub payment_method_id: Option<PaymentMethodId>,
    /// The refund that it carries out.
    pub refund_id: Option<RefundId>,
    /// Where it is sent.
    pub provider_account_id: ProviderAccountId,
    /// Who is there.
    pub provider: ProviderKind,
    /// What is asked.
    pub kind: Kind,
    /// How far it has come.
    pub state: State,
    /// Our name for it at the provider.
    pub reference: String,
    /// How much.
    pub amount: Option<i64>,
    /// Of what.
    pub currency: Option<Currency>,
    /// The fencing token of the latest claim.
    pub fence: i64,
    /// Until when a worker has it.
    pub lease_until: Option<Timestamp>,
    /// When it is handed out next; none if it has ended, or only a person can find out.
    pub next_push_at: Option<Timestamp>,
    /// When a request was sent for the first time.
    pub first_sent_at: Option<Timestamp>,
    /// When one was sent last.
    pub last_sent_at: Option<Timestamp>,
    /// The provider's name for what it did.
    pub provider_ref: Option<String>,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it came to its end.
    pub finished_at: Option<Timestamp>,
    /// Seconds since it was written.
    pub age_seconds: f64,
    /// Whether the last request sent can no longer be acted on.
    pub last_request_is_dead: bool,
    /// Whether the lease lies ahead.
    pub is_held: bool,
    /// Seconds since a request was sent for the first time; 0 if none was.
    pub sent_for_seconds: f64,
}

impl OperationRow {
    /// Whether only a person can find out how it ended.
    pub fn waits_for_a_person(&self) -> bool {
        self.state == State::Unknown && self.next_push_at.is_none()
    }
}

/// Which operations are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Those alone whose outcome is unknown; otherwise all that have not come to their end.
    pub unknown: bool,
    /// Of this account alone.
    pub account: Option<AccountId>,
    /// So many at most.
    pub limit: i64,
}

/// Operations that have not come to their end, oldest first.
///
/// # Errors
/// Only the database's.
pub async fn list(db: &PgPool, filter: Filter) -> Result<Vec<OperationRow>> {
    store::list(db, filter).await
}

/// One operation.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn find(db: &PgPool, id: OperationId) -> Result<OperationRow> {
    store::find(db, id).await?.ok_or_else(|| Error::no_such("operation", id))
}

/// All operations of a payment, oldest first.
///
/// # Errors
/// Only the database's.
pub async fn of_payment(db: &PgPool, account: AccountId, payment: PaymentId) -> Result<Vec<OperationRow>> {
    store::of_payment(db, account, payment).await
}

/// What has this name of the provider's already, other than this operation: a payment, an anomaly, or another operation of
/// the same payment.
///
/// # Errors
/// Only the database's.
pub async fn known_by(db: &PgPool, operation: &OperationRow, provider_ref: &str) -> Result<Option<String>> {
    store::known_by(db, operation, provider_ref).await
}
