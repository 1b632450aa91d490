//! What an operator sees of operations. Only the operator's command line calls these.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use super::store::admin as store;
use super::{Kind, State};
use crate::db;
use crate::error::{Error, Result};
use crate::id::{AccountId, KeyId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId, RefundId};
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
    /// The provider's name for the charge that it follows.
    pub target_ref: Option<String>,
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
    /// The `Request-Id` that it was asked for under.
    pub request_id: Option<String>,
    /// The key that it was asked for with.
    pub requested_by: Option<KeyId>,
    /// Whether the system itself began it.
    pub by_system: bool,
    /// Whether it collects an invoice.
    pub background: bool,
    /// How often it was handed out without being taken.
    pub pushes: i32,
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
    /// Of this kind alone.
    pub kind: Option<Kind>,
    /// In this state alone.
    pub state: Option<State>,
    /// Those first that were handed out most often without coming to an end.
    pub most_handed_out: bool,
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

/// Keeps an operation from being handed out for so long. It stays due, and a worker that has it goes on. Answers whose it is.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for one that has ended or waits for a person.
pub async fn hold(tx: &mut PgConnection, id: OperationId, last: Duration) -> Result<AccountId> {
    let held = store::hold(tx, id, last).await?;
    refused_unless(tx, id, held, "the operation has ended, or waits for a person: nobody hands it out").await
}

/// Takes an operation from the workers for good: its outcome counts as unknown, and waits for a person. For the time after a
/// restore, when what it asks for may have been done in the lost interval. Answers whose it is.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for one that has ended, that a worker has, that saves a card, or whose payment has
/// another change of unknown outcome.
pub async fn withhold(tx: &mut PgConnection, id: OperationId) -> Result<AccountId> {
    let withheld = match store::withhold(&mut *tx, id).await {
        Err(Error::Database(error)) if db::violated(&error) == Some("operations_one_in_flight") => {
            return Err(Error::conflict("another change of its payment has an unknown outcome: resolve that first"));
        }
        withheld => withheld?,
    };
    refused_unless(tx, id, withheld, "the operation has ended, is in a worker's hands, or saves a card").await
}

async fn refused_unless(
    tx: &mut PgConnection,
    id: OperationId,
    done: Option<AccountId>,
    why: &'static str,
) -> Result<AccountId> {
    match done {
        Some(account) => Ok(account),
        None if store::exists(tx, id).await? => Err(Error::conflict(why)),
        None => Err(Error::no_such("operation", id)),
    }
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
