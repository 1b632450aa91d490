//! Operations: one row for every request to a provider that can move money, with its lease, its fencing token and its state.
//!
//! `ready → claimed → sending → succeeded | declined | failed | unknown` (docs/architecture.md, "The way a charge goes").
//! Leases go by `clock_timestamp()` of the database: never by `now()`, which stands still while a lock is waited for, and
//! never by a process's own clock.

pub mod admin;
pub mod books;
mod breaker;
mod store;
mod sweep;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use crate::accounts::AccountTime;
use crate::crypto::Secret;
use crate::db;
use crate::error::{Error, Result};
use crate::id::{AccountId, KeyId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId, RefundId};
use crate::money::{Currency, Money};
use crate::proof::{self, Rule};
use crate::providers::{Action, FailureCode, Payer, ProviderKind, Request, Source};
use crate::time::Timestamp;

pub use breaker::{Breaker, WhenNotProcessed, admit, breakers, close_breaker, count_not_processed, put_back};
pub use sweep::{Due, OVERDUE, SWEEP_BATCH, in_background, take_due, take_due_of};

/// How long a claim holds. Longer than [`PROVIDER_TIMEOUT`] and the outcome's commit together.
pub const LEASE: Duration = Duration::from_secs(20);
/// How long a provider is waited for.
pub const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after the intent the sweep looks whether anyone has taken the work.
pub const FIRST_PUSH_AFTER: Duration = Duration::from_secs(3);
/// How long after it arrived a provider may still act on a request.
pub const REQUEST_LIFETIME: Duration = Duration::from_secs(10);

/// What is asked of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "operation_kind", rename_all = "snake_case")]
pub enum Kind {
    /// Authorize and capture.
    Sale,
    /// Authorize.
    Authorize,
    /// Take authorized money.
    Capture,
    /// Cancel an unsettled charge.
    Void,
    /// Give money back.
    Refund,
    /// Keep a card.
    StoreCard,
    /// Cancel a charge that no payment wants.
    Reverse,
}

impl Kind {
    /// Every one.
    pub const ALL: [Self; 7] =
        [Self::Sale, Self::Authorize, Self::Capture, Self::Void, Self::Refund, Self::StoreCard, Self::Reverse];

    /// Its name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sale => "sale",
            Self::Authorize => "authorize",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
            Self::StoreCard => "store_card",
            Self::Reverse => "reverse",
        }
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "operation_state", rename_all = "snake_case")]
pub enum State {
    /// Written, and nobody's.
    Ready,
    /// Taken by a worker; nothing was sent.
    Claimed,
    /// Past the gate: a request may be under way.
    Sending,
    /// The provider did it.
    Succeeded,
    /// The issuer said no.
    Declined,
    /// It certainly did not happen.
    Failed,
    /// A request was sent and its answer lost.
    Unknown,
}

impl State {
    /// Its name in metrics and logs.
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

    /// Whether nothing more will come of it.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Declined | Self::Failed => true,
            Self::Ready | Self::Claimed | Self::Sending | Self::Unknown => false,
        }
    }
}

/// What an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A payment.
    Payment(PaymentId),
    /// A card to be saved.
    PaymentMethod(PaymentMethodId),
}

impl Subject {
    /// Under which id a waiting request is told.
    pub const fn reply_id(self) -> uuid::Uuid {
        match self {
            Self::Payment(id) => id.uuid(),
            Self::PaymentMethod(id) => id.uuid(),
        }
    }
}

/// Who waits for an operation, and why it exists: carried along so that logs and answers find their way back.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The API process that waits, as its reply channel is named.
    pub reply_to: Option<String>,
    /// The request that caused it.
    pub request_id: Option<String>,
    /// The key that it was asked for with; none of what no key asks for: payers on pages of ours, the schedule, reversals.
    pub requested_by: Option<KeyId>,
    /// Where whoever pays on a page of ours has come from, for a provider that counts by it.
    pub payer_address: Option<String>,
}

/// An operation about to be written.
#[derive(Debug)]
pub struct NewOperation<'a> {
    /// Its id, made before the transaction.
    pub id: OperationId,
    /// Whose it is.
    pub account_id: AccountId,
    /// Where it is sent.
    pub provider_account_id: ProviderAccountId,
    /// What it is about.
    pub subject: Subject,
    /// The refund that it carries out.
    pub refund_id: Option<RefundId>,
    /// What is asked.
    pub kind: Kind,
    /// How much; none for saving a card.
    pub money: Option<Money>,
    /// What pays; none for what follows a charge.
    pub source: Option<&'a Source>,
    /// The provider's name for the charge that a follow-up is about.
    pub target_ref: Option<&'a str>,
    /// What our address of a challenge ends with; none if nobody is there to be asked.
    pub action_token: Option<&'a str>,
    /// Whether the system itself begins it, and not a request of somebody's.
    pub by_system: bool,
    /// Who waits for it.
    pub origin: &'a Origin,
}

/// Writes an operation. The same transaction writes what it is for.
///
/// # Errors
/// Only the database's.
pub async fn insert(tx: &mut PgConnection, new: &NewOperation<'_>) -> Result<()> {
    store::insert(tx, new).await
}

/// An operation that is ours until its lease ends.
#[derive(Debug)]
pub struct Claimed {
    /// The operation.
    pub id: OperationId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The account's time.
    pub time: AccountTime,
    /// Where it is sent.
    pub provider_account_id: ProviderAccountId,
    /// Who is there.
    pub provider: ProviderKind,
    /// What it is about.
    pub subject: Subject,
    /// The refund that it carries out.
    pub refund_id: Option<RefundId>,
    /// What is asked.
    pub kind: Kind,
    /// The request to send, the same at every try.
    pub request: Request,
    /// What our address of a challenge ends with; none if nobody is there to be asked.
    pub action_token: Option<String>,
    /// Who waits for it.
    pub origin: Origin,
    /// The fencing token of this claim.
    pub fence: i64,
    /// Whether a request may have been sent before: the provider's recovery class decides what follows.
    pub sent_before: bool,
    /// Look-ups so far that found nothing, made when no earlier request could still arrive.
    pub not_found: i32,
    /// Whether the last request sent can no longer be acted on.
    pub last_request_is_dead: bool,
    /// Whether nobody waits for it.
    pub background: bool,
    /// Whether the system itself began it.
    pub by_system: bool,
    /// How often in a row it was not processed.
    pub not_processed: i32,
    /// How long ago it was written.
    pub age: Duration,
    /// Whether requests of this provider account were not processed lately.
    pub has_breaker: bool,
}

/// Takes an operation and passes the gate in one statement: what this protects has no parent to race with. `now` is everyone's
/// time; the request carries the account's.
///
/// `None`: it is finished, or another worker's, or gone. That is the fate of every wake-up that comes twice. Or it is a refund,
/// and another change of its payment is under way: a constraint lets one follow the other.
///
/// # Errors
/// Only the database's.
pub async fn claim(pool: &PgPool, id: OperationId, now: Timestamp) -> Result<Option<Claimed>> {
    let dead_after = PROVIDER_TIMEOUT + REQUEST_LIFETIME;
    if !proof::holds(Rule::Claim) {
        return claim_without_lock(pool, id, now).await;
    }
    let row = match store::claim(pool, id, LEASE, dead_after, now).await {
        Err(Error::Database(error)) if db::violated(&error) == Some("operations_one_in_flight") => return Ok(None),
        claimed => claimed?,
    };
    let Some(row) = row else { return Ok(None) };
    let mut claimed = row.into_claimed()?;
    claimed.sent_before &= proof::holds(Rule::Gate);
    Ok(Some(claimed))
}

/// Without [`Rule::Claim`]: whoever finds an operation untouched takes it, whoever else has found it so.
async fn claim_without_lock(pool: &PgPool, id: OperationId, now: Timestamp) -> Result<Option<Claimed>> {
    let mut claimed = store::read(pool, id, now).await?.into_claimed()?;
    let state = store::state(pool, claimed.account_id, id).await?;
    tokio::time::sleep(FIRST_PUSH_AFTER * 2).await;
    store::claim(pool, id, LEASE, PROVIDER_TIMEOUT, now).await?;
    claimed.sent_before = state != Some(State::Ready);
    Ok(state.is_some_and(|state| !state.is_final()).then_some(claimed))
}

/// Who pays for a payment, as far as we know: its customer, and what is lacking of that is the account's.
///
/// # Errors
/// Only the database's.
pub async fn payer(db: &PgPool, payment: PaymentId) -> Result<Payer> {
    store::payer(db, payment).await
}

/// The provider's names for what was refunded of a payment.
///
/// # Errors
/// Only the database's.
pub async fn recorded_refunds(db: &PgPool, account: AccountId, payment: PaymentId) -> Result<Vec<String>> {
    store::recorded_refunds(db, account, payment).await
}

/// The oldest refund of a payment that nobody has begun: one at a time is under way, and it is handed out when that has ended.
///
/// # Errors
/// Only the database's.
pub async fn next_refund(tx: &mut PgConnection, account: AccountId, payment: PaymentId) -> Result<Option<OperationId>> {
    store::next_refund(tx, account, payment).await
}

/// Notes that a request is about to be sent again, and begins the lease anew for it, and the time in which it may be begun.
///
/// # Errors
/// [`Error::Conflict`] if the claim is no longer ours.
pub async fn sending_again(db: &PgPool, claimed: &mut Claimed) -> Result<()> {
    let held = store::sending_again(db, claimed.id, claimed.fence, LEASE).await?;
    claimed.request.valid_until = held.ok_or_else(|| Error::conflict("the lease was lost"))?;
    Ok(())
}

/// An operation as it stands, taken by nobody: for an outcome that came another way than by asking.
///
/// # Errors
/// Only the database's.
pub async fn read(db: &PgPool, id: OperationId, now: Timestamp) -> Result<Claimed> {
    store::read(db, id, now).await?.into_claimed()
}

/// What to do with an operation whose outcome is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Ask again when this time has passed.
    After(Duration),
    /// Only a person can find out.
    ByAPerson,
}

/// Gives an operation back with its outcome unknown.
///
/// # Errors
/// Only the database's. If the claim was lost meanwhile, nothing is changed.
pub async fn leave_unknown(tx: &mut PgConnection, claimed: &Claimed, retry: Retry, found_nothing: bool) -> Result<()> {
    let after = match retry {
        Retry::After(delay) => Some(delay),
        Retry::ByAPerson => None,
    };
    store::leave_unknown(tx, claimed.id, claimed.fence, after, found_nothing).await
}

/// An operation that has not come to its end and does not wait for a person.
#[derive(Debug)]
pub struct Unfinished {
    /// The operation.
    pub id: OperationId,
    /// How far it has come.
    pub state: State,
    /// The payment or card that it is about.
    pub subject: uuid::Uuid,
}

/// The operations of an account that will come to an end by themselves: no refund that waits behind what waits for a person.
///
/// # Errors
/// Only the database's.
pub async fn unfinished(db: &PgPool, account: AccountId) -> Result<Vec<Unfinished>> {
    store::unfinished(db, account).await
}

/// How far an operation has come.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn state(db: &PgPool, account: AccountId, id: OperationId) -> Result<State> {
    store::state(db, account, id).await?.ok_or_else(|| Error::no_such("operation", id))
}

/// Why an operation failed; none if it did not, or if that was not noted.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn failure_code(db: &PgPool, account: AccountId, id: OperationId) -> Result<Option<FailureCode>> {
    store::failure_code(db, account, id).await?.ok_or_else(|| Error::no_such("operation", id))
}

/// Why a card was not saved, if that was noted.
///
/// # Errors
/// Only the database's.
pub async fn why_not_saved(db: &PgPool, account: AccountId, card: PaymentMethodId) -> Result<Option<FailureCode>> {
    store::why_not_saved(db, account, card).await
}

/// Whether the outcome of another refund of this payment is unknown.
///
/// # Errors
/// Only the database's.
pub async fn another_refund_is_unknown(tx: &mut PgConnection, claimed: &Claimed, payment: PaymentId) -> Result<bool> {
    store::another_refund_is_unknown(tx, claimed.account_id, payment, claimed.id).await
}

/// An operation as its outcome finds it, locked.
#[derive(Debug)]
pub struct Locked {
    /// How far it has come.
    pub state: State,
    /// The provider's name for what it did, if it did.
    pub provider_ref: Option<String>,
    /// The fencing token of the latest claim.
    pub fence: i64,
    /// Whether the lease of that claim lies ahead.
    pub is_held: bool,
}

/// Locks an operation for its outcome. Its payment is locked before.
///
/// # Errors
/// Only the database's.
pub async fn lock(tx: &mut PgConnection, id: OperationId) -> Result<Locked> {
    store::lock(tx, id).await
}

/// How an operation ended.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// A final state.
    pub state: State,
    /// The provider's name for what it did.
    pub provider_ref: Option<&'a str>,
    /// Why it failed, for the person on call.
    pub failure: Option<&'a str>,
    /// Why it failed, for the caller.
    pub failure_code: Option<FailureCode>,
}

/// Writes the end of an operation, by its id and not by its fence: a late worker's known result is a fact.
///
/// # Errors
/// Only the database's.
pub async fn finish(tx: &mut PgConnection, id: OperationId, outcome: &Outcome<'_>) -> Result<()> {
    debug_assert!(outcome.state.is_final());
    store::finish(tx, id, outcome).await
}

/// How many operations stand in a state, and how old the oldest is.
#[derive(Debug)]
pub struct Backlog {
    /// The state.
    pub state: State,
    /// How many.
    pub count: i64,
    /// Seconds since the oldest was written, of those that do not wait for a person; nor, unless they are unknown, in the
    /// background.
    pub oldest_seconds: f64,
    /// The same, of those in the background, of which many may be waiting for their turn.
    pub oldest_in_background_seconds: f64,
    /// Of these, how many wait for a person.
    pub for_a_person: i64,
}

/// The unfinished operations, by state. The cost follows their number, not the size of the table.
///
/// # Errors
/// Only the database's.
pub async fn backlog(db: &PgPool) -> Result<Vec<Backlog>> {
    store::backlog(db).await
}

/// The request that an operation stands for.
fn action(
    kind: Kind,
    money: Option<(i64, Currency)>,
    upstream_token: Option<String>,
    card_ref: Option<String>,
    target_ref: Option<String>,
) -> Option<Action> {
    let money = money.map(|(minor, currency)| Money { minor, currency });
    let token = upstream_token.map(Secret::new);
    Some(match kind {
        Kind::Sale | Kind::Authorize => {
            let source = match (token, card_ref) {
                (Some(token), None) => Source::Token(token),
                (None, Some(card)) => Source::Card(card),
                _ => return None,
            };
            Action::Charge { source, money: money?, capture: kind == Kind::Sale }
        }
        Kind::Capture => Action::Capture { charge: target_ref?, money: money? },
        Kind::Refund => Action::Refund { charge: target_ref?, money: money? },
        Kind::Void | Kind::Reverse => Action::Void { charge: target_ref? },
        Kind::StoreCard => Action::StoreCard { token: token? },
    })
}
