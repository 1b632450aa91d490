//! Operations: one row per request to a provider that can move money, with its lease, fencing token and state.
//!
//! `ready → claimed → sending → succeeded
//!
//! declined
//!
//! failed
//!
//! unknown` (docs/architecture.md, "The way a charge goes"). Leases use the database's `clock_timestamp()`: `now()`
//! stands still while a transaction waits for a lock, and the clocks of processes differ.

pub mod admin;
pub mod books;
mod breaker;
mod store;
mod sweep;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use crate::accounts::AccountTime;
use foundation::crypto::Secret;
use foundation::db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, KeyId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId, RefundId};
use foundation::money::{Currency, Money};
use foundation::proof::{self, Rule};
use foundation::time::Timestamp;
use providers::{Action, FailureCode, Payer, ProviderKind, Request, Source};

pub use providers::{OperationKind, PROVIDER_TIMEOUT};

pub use breaker::{Breaker, WhenNotProcessed, admit, breakers, close_breaker, count_not_processed, requeue};
pub use sweep::{Due, OVERDUE, SWEEP_BATCH, count_background, take_due, take_overdue};

/// How long a claim lasts. Longer than [`PROVIDER_TIMEOUT`] plus the time to commit the outcome.
pub const LEASE: Duration = Duration::from_secs(20);
/// How long after the intent is committed the sweep checks whether a worker has claimed the operation.
pub const FIRST_PUSH_AFTER: Duration = Duration::from_secs(3);
/// How long after a request arrives a provider may still act on it.
pub const REQUEST_LIFETIME: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "operation_state", rename_all = "snake_case")]
pub enum State {
    /// Written, and not claimed.
    Ready,
    /// Claimed by a worker; no request has been sent.
    Claimed,
    /// A request may have been sent.
    Sending,
    /// The provider executed it.
    Succeeded,
    /// The issuer declined it.
    Declined,
    /// It certainly had no effect.
    Failed,
    /// A request was sent, and its response was lost.
    Unknown,
}

impl State {
    /// Name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Claimed => "claimed",
            Self::Sending => "sending",
            Self::Succeeded => "succeeded",
            Self::Declined => "declined",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the state can no longer change.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Declined | Self::Failed => true,
            Self::Ready | Self::Claimed | Self::Sending | Self::Unknown => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Payment(PaymentId),
    /// A card to save.
    PaymentMethod(PaymentMethodId),
}

impl Subject {
    /// The id under which a waiting request is notified.
    pub const fn reply_id(self) -> uuid::Uuid {
        match self {
            Self::Payment(id) => id.uuid(),
            Self::PaymentMethod(id) => id.uuid(),
        }
    }
}

/// The client that waits for an operation, and the request that created it: carried along for logs and notifications.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The reply channel of the API process that waits.
    pub reply_to: Option<String>,
    /// The `Request-Id` of the request that created it.
    pub request_id: Option<String>,
    /// The API key of that request. `None` for payers on hosted pages, the scheduler and reversals.
    pub requested_by: Option<KeyId>,
    /// The IP address of a payer on a hosted page, for a provider that applies limits by address.
    pub payer_address: Option<String>,
}

/// An operation to insert.
#[derive(Debug)]
pub struct NewOperation<'a> {
    /// Generated before the transaction.
    pub id: OperationId,
    pub account_id: AccountId,
    pub provider_account_id: ProviderAccountId,
    pub subject: Subject,
    pub refund_id: Option<RefundId>,
    pub kind: OperationKind,
    /// `None` for saving a card.
    pub money: Option<Money>,
    /// `None` for an operation that follows a charge.
    pub source: Option<&'a Source>,
    /// The provider's reference for the charge that a follow-up operation changes.
    pub target_ref: Option<&'a str>,
    /// The token in our URL of a challenge; `None` if no cardholder is present.
    pub action_token: Option<&'a str>,
    /// Whether the system itself creates it, not a client's request.
    pub by_system: bool,
    pub origin: &'a Origin,
}

/// Inserts an operation, in the same transaction as the payment, refund or card that it is for.
///
/// # Errors
/// Database errors only.
pub async fn insert(tx: &mut PgConnection, new: &NewOperation<'_>) -> Result<()> {
    store::insert(tx, new).await
}

/// An operation that this worker holds until its lease ends.
#[derive(Debug)]
pub struct Claimed {
    pub id: OperationId,
    pub account_id: AccountId,
    pub time: AccountTime,
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    pub subject: Subject,
    pub refund_id: Option<RefundId>,
    pub kind: OperationKind,
    /// The request to send, identical at every attempt.
    pub request: Request,
    /// The token in our URL of a challenge; `None` if no cardholder is present.
    pub action_token: Option<String>,
    pub origin: Origin,
    /// The fencing token of this claim.
    pub fence: i64,
    /// Whether a request may already have been sent: if so, the provider's recovery class decides how to continue.
    pub sent_before: bool,
    /// Number of look-ups that found nothing, counting only those made when no earlier request could still arrive.
    pub not_found: i32,
    /// Whether the last request sent can no longer have an effect.
    pub last_request_is_dead: bool,
    /// Whether no client waits for it.
    pub background: bool,
    /// Whether the system itself created it.
    pub by_system: bool,
    /// How often in a row it was not processed.
    pub not_processed: i32,
    /// Time since it was inserted.
    pub age: Duration,
    /// Whether the provider account has a breaker row, because requests were recently not processed.
    pub has_breaker: bool,
}

/// Claims an operation and moves it to `sending` in one statement; a single-row update needs no lock on a parent. `now`
/// is the system's time; the request carries the account's.
///
/// `None` if the operation is finished, leased by another worker, or gone, as for every duplicate wake-up. Also `None`
/// for a refund while another operation of its payment is in progress: a constraint serializes them.
///
/// # Errors
/// Database errors only.
pub async fn claim(pool: &PgPool, id: OperationId, now: Timestamp) -> Result<Option<Claimed>> {
    let expired_after = PROVIDER_TIMEOUT + REQUEST_LIFETIME;
    if !proof::holds(Rule::Claim) {
        return claim_without_lock(pool, id, now).await;
    }
    let row = match store::claim(pool, id, LEASE, expired_after, now).await {
        Err(Error::Database(error)) if db::violated_constraint(&error) == Some("operations_one_in_flight") => {
            return Ok(None);
        }
        claimed => claimed?,
    };
    let Some(row) = row else { return Ok(None) };
    let mut claimed = row.into_claimed()?;
    claimed.sent_before &= proof::holds(Rule::Gate);
    Ok(Some(claimed))
}

/// Claims without [`Rule::Claim`]: every worker that finds the operation unclaimed takes it.
async fn claim_without_lock(pool: &PgPool, id: OperationId, now: Timestamp) -> Result<Option<Claimed>> {
    let mut claimed = store::read(pool, id, now).await?.into_claimed()?;
    let state = store::state(pool, claimed.account_id, id).await?;
    tokio::time::sleep(FIRST_PUSH_AFTER * 2).await;
    store::claim(pool, id, LEASE, PROVIDER_TIMEOUT, now).await?;
    claimed.sent_before = state != Some(State::Ready);
    Ok(state.is_some_and(|state| !state.is_final()).then_some(claimed))
}

/// Returns the payer of a payment: its customer, with the account's data for missing fields.
///
/// # Errors
/// Database errors only.
pub async fn payer(db: &PgPool, payment: PaymentId) -> Result<Payer> {
    store::payer(db, payment).await
}

/// Returns the provider's references of the payment's recorded refunds.
///
/// # Errors
/// Database errors only.
pub async fn recorded_refunds(db: &PgPool, account: AccountId, payment: PaymentId) -> Result<Vec<String>> {
    store::recorded_refunds(db, account, payment).await
}

/// Returns the oldest refund of a payment that has not started. Refunds of a payment run one at a time: the next is
/// handed out when the previous has ended.
///
/// # Errors
/// Database errors only.
pub async fn next_refund(tx: &mut PgConnection, account: AccountId, payment: PaymentId) -> Result<Option<OperationId>> {
    store::next_refund(tx, account, payment).await
}

/// Records that the request is about to be sent again, extends the lease, and renews the time until which the provider
/// may start it.
///
/// # Errors
/// [`Error::Conflict`] if the claim was lost.
pub async fn sending_again(db: &PgPool, claimed: &mut Claimed) -> Result<()> {
    let held = store::sending_again(db, claimed.id, claimed.fence, LEASE).await?;
    claimed.request.valid_until = held.ok_or_else(|| Error::conflict("the lease was lost"))?;
    Ok(())
}

/// Reads an operation without claiming it, for an outcome that did not come from a request of a worker.
///
/// # Errors
/// Database errors only.
pub async fn read(db: &PgPool, id: OperationId, now: Timestamp) -> Result<Claimed> {
    store::read(db, id, now).await?.into_claimed()
}

/// How to continue with an operation of unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Try again after this delay.
    After(Duration),
    /// An operator must determine the outcome.
    ManualReview,
}

/// Releases an operation with its outcome unknown. Changes nothing if the claim was lost.
///
/// # Errors
/// Database errors only.
pub async fn leave_unknown(tx: &mut PgConnection, claimed: &Claimed, retry: Retry, found_nothing: bool) -> Result<()> {
    let after = match retry {
        Retry::After(delay) => Some(delay),
        Retry::ManualReview => None,
    };
    store::leave_unknown(tx, claimed.id, claimed.fence, after, found_nothing).await
}

/// An operation that has not ended and does not need manual review.
#[derive(Debug)]
pub struct Unfinished {
    pub id: OperationId,
    pub state: State,
    /// The payment or card.
    pub subject: uuid::Uuid,
}

/// Returns the operations of an account that will end without an operator: refunds that wait for an operation in manual
/// review are left out.
///
/// # Errors
/// Database errors only.
pub async fn unfinished(db: &PgPool, account: AccountId) -> Result<Vec<Unfinished>> {
    store::unfinished(db, account).await
}

/// Returns the state of an operation.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn state(db: &PgPool, account: AccountId, id: OperationId) -> Result<State> {
    store::state(db, account, id).await?.ok_or_else(|| Error::no_such("operation", id))
}

/// Returns why an operation failed; `None` if it did not fail or no code was recorded.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn failure_code(db: &PgPool, account: AccountId, id: OperationId) -> Result<Option<FailureCode>> {
    store::failure_code(db, account, id).await?.ok_or_else(|| Error::no_such("operation", id))
}

/// Returns why a card was not saved, if a code was recorded.
///
/// # Errors
/// Database errors only.
pub async fn store_card_failure(db: &PgPool, account: AccountId, card: PaymentMethodId) -> Result<Option<FailureCode>> {
    store::store_card_failure(db, account, card).await
}

/// Whether another refund of this payment has an unknown outcome.
///
/// # Errors
/// Database errors only.
pub async fn another_refund_is_unknown(tx: &mut PgConnection, claimed: &Claimed, payment: PaymentId) -> Result<bool> {
    store::another_refund_is_unknown(tx, claimed.account_id, payment, claimed.id).await
}

/// A locked operation, as read before its outcome is written.
#[derive(Debug)]
pub struct Locked {
    pub state: State,
    /// The provider's reference for the transaction, if it succeeded.
    pub provider_ref: Option<String>,
    /// The fencing token of the latest claim.
    pub fence: i64,
    /// Whether the lease of that claim has not expired.
    pub is_held: bool,
}

/// Locks an operation to write its outcome. The caller has locked its payment.
///
/// # Errors
/// Database errors only.
pub async fn lock(tx: &mut PgConnection, id: OperationId) -> Result<Locked> {
    store::lock(tx, id).await
}

#[derive(Debug)]
pub struct Outcome<'a> {
    /// A final state.
    pub state: State,
    /// The provider's reference for the transaction.
    pub provider_ref: Option<&'a str>,
    /// Why it failed, for operators.
    pub failure: Option<&'a str>,
    /// Why it failed, for the API client.
    pub failure_code: Option<FailureCode>,
}

/// Writes the outcome of an operation, regardless of the fence: a late worker's known result is a fact.
///
/// # Errors
/// Database errors only.
pub async fn finish(tx: &mut PgConnection, id: OperationId, outcome: &Outcome<'_>) -> Result<()> {
    debug_assert!(outcome.state.is_final());
    store::finish(tx, id, outcome).await
}

/// The number of unfinished operations in one state, and the age of the oldest.
#[derive(Debug)]
pub struct Backlog {
    pub state: State,
    pub count: i64,
    /// Age in seconds of the oldest operation that does not need manual review and is unknown or not in the background.
    pub oldest_seconds: f64,
    /// Age in seconds of the oldest background operation. Many may be queued.
    pub oldest_in_background_seconds: f64,
    /// How many of them need manual review.
    pub for_a_person: i64,
}

/// Returns the unfinished operations by state. The cost depends on their number, not on the size of the table.
///
/// # Errors
/// Database errors only.
pub async fn backlog(db: &PgPool) -> Result<Vec<Backlog>> {
    store::backlog(db).await
}

/// Builds the provider request of an operation.
fn action(
    kind: OperationKind,
    money: Option<(i64, Currency)>,
    upstream_token: Option<String>,
    card_ref: Option<String>,
    target_ref: Option<String>,
) -> Option<Action> {
    let money = money.map(|(minor, currency)| Money { minor, currency });
    let token = upstream_token.map(Secret::new);
    Some(match kind {
        OperationKind::Sale | OperationKind::Authorize => {
            let source = match (token, card_ref) {
                (Some(token), None) => Source::Token(token),
                (None, Some(card)) => Source::Card(card),
                _ => return None,
            };
            Action::Charge { source, money: money?, capture: kind == OperationKind::Sale }
        }
        OperationKind::Capture => Action::Capture { charge: target_ref?, money: money? },
        OperationKind::Refund => Action::Refund { charge: target_ref?, money: money? },
        OperationKind::Void | OperationKind::Reverse => Action::Void { charge: target_ref? },
        OperationKind::StoreCard => Action::StoreCard { token: token? },
    })
}
