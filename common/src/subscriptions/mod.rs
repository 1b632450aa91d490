//! Subscriptions: a plan that a customer pays, cycle by cycle. Each cycle has an invoice, which is collected at once
//! (`flows/run_subscriptions.rs`).

mod cycles;
mod status;
mod store;
mod view;

use sqlx::{PgConnection, PgPool};

pub use status::Status;
pub use view::SubscriptionView;

use crate::accounts::{Mode, Scope};
use crate::calendar::{Date, TimeZone};
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::events::{self, EventType};
use crate::id::{AccountId, CustomerId, PaymentMethodId, PlanId, SubscriptionId};
use crate::invoices::{self, Invoice};
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::time::Timestamp;

/// A subscription as stored.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Its id.
    pub id: SubscriptionId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The account's mode.
    pub mode: Mode,
    /// Who pays.
    pub customer_id: CustomerId,
    /// What, and how often.
    pub plan_id: PlanId,
    /// With which card, if not the customer's default one.
    pub payment_method_id: Option<PaymentMethodId>,
    /// Where it stands.
    pub status: Status,
    /// The name of the zone in which its days begin. A name, so that a machine which does not know the zone can show it.
    pub timezone: String,
    /// The day from which its dates are counted.
    pub anchor: Date,
    /// When the cycle that was billed last began; none before the first.
    pub current_period_start: Option<Timestamp>,
    /// When the one after it begins.
    pub current_period_end: Option<Timestamp>,
    /// The date of the cycle that is billed next; none once it is cancelled.
    pub next_billing_date: Option<Date>,
    /// When that day begins.
    pub next_billing_at: Option<Timestamp>,
    /// A cycle that could not be billed is not tried again before this.
    pub retry_at: Option<Timestamp>,
    /// When it was cancelled.
    pub cancelled_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A subscription to be made. Its fields have been checked.
#[derive(Clone, Debug)]
pub struct NewSubscription {
    /// Who is to pay.
    pub customer_id: CustomerId,
    /// What, and how often.
    pub plan_id: PlanId,
    /// With which card, if not the customer's default one.
    pub payment_method_id: Option<PaymentMethodId>,
    /// The day from which its dates are counted; today if none is named.
    pub start_at: Option<Date>,
    /// In which its days begin.
    pub timezone: TimeZone,
}

/// A subscription whose next cycle may be due.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// Its id.
    pub id: SubscriptionId,
    /// Whose it is.
    pub account_id: AccountId,
    /// What is billed.
    pub plan_id: PlanId,
    /// What time it is for the account.
    pub now: Timestamp,
}

/// Writes a subscription.
///
/// # Errors
/// Only the database's.
pub async fn insert(tx: &mut PgConnection, subscription: &Subscription) -> Result<()> {
    store::insert(tx, subscription).await
}

/// Writes what has become of a subscription that is locked.
///
/// # Errors
/// Only the database's.
pub async fn save(tx: &mut PgConnection, subscription: &Subscription) -> Result<()> {
    store::save(tx, subscription).await
}

/// Tells of a subscription as it stands.
///
/// # Errors
/// Only the database's.
pub async fn announce(tx: &mut Tx, subscription: &Subscription, kind: EventType, now: Timestamp) -> Result<()> {
    let livemode = subscription.mode == Mode::Live;
    events::append(tx, subscription.account_id, livemode, kind, &SubscriptionView::new(subscription), now).await?;
    Ok(())
}

/// Ends a subscription that is locked. Its invoices are the caller's affair.
///
/// # Errors
/// [`Error::Internal`] if it is cancelled.
pub async fn cancel(tx: &mut Tx, subscription: &mut Subscription, now: Timestamp) -> Result<()> {
    if !subscription.status.may_become(Status::Cancelled) {
        return Err(Error::internal(format!("{} is {:?} and cannot end", subscription.id, subscription.status)));
    }
    subscription.status = Status::Cancelled;
    subscription.next_billing_date = None;
    subscription.next_billing_at = None;
    subscription.retry_at = None;
    subscription.cancelled_at = Some(now);
    store::save(tx, subscription).await?;
    announce(tx, subscription, EventType::SubscriptionCancelled, now).await
}

/// An attempt to collect an invoice of it has failed. The subscription is locked, and so is the invoice, after it.
///
/// # Errors
/// Only the database's.
pub async fn invoice_failed(tx: &mut Tx, subscription: &mut Subscription, now: Timestamp) -> Result<()> {
    if !subscription.status.may_become(Status::PastDue) {
        return Ok(());
    }
    subscription.status = Status::PastDue;
    store::save(tx, subscription).await?;
    announce(tx, subscription, EventType::SubscriptionPastDue, now).await
}

/// An invoice of it is owed no more, for it was paid or voided, and has been written so. The subscription is locked, and so
/// is the invoice, after it. No event tells of it: that of the invoice does.
///
/// # Errors
/// Only the database's.
pub async fn invoice_paid(tx: &mut Tx, subscription: &mut Subscription) -> Result<()> {
    // What is scheduled becomes active by its first cycle, and by nothing else.
    if subscription.status != Status::PastDue
        || invoices::is_owed_after_failure(tx, subscription.account_id, subscription.id).await?
    {
        return Ok(());
    }
    subscription.status = Status::Active;
    store::save(tx, subscription).await
}

/// One subscription.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: &PgPool, account: AccountId, id: SubscriptionId) -> Result<Subscription> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("subscription", id))
}

/// Locks a subscription. It is locked after its customer and before its invoices.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: SubscriptionId) -> Result<Subscription> {
    store::lock(tx, account, id).await?.ok_or_else(|| Error::no_such("subscription", id))
}

/// Locks the subscription that has produced an invoice, if one has. What produced an invoice never changes, so the invoice may
/// have been read before; it is locked after.
///
/// # Errors
/// Only the database's.
pub async fn lock_producer(tx: &mut PgConnection, invoice: &Invoice) -> Result<Option<Subscription>> {
    match invoice.subscription_id {
        Some(id) => lock(tx, invoice.account_id, id).await.map(Some),
        None => Ok(None),
    }
}

/// A page of subscriptions, newest first.
///
/// # Errors
/// 422 for a cursor that names no subscription of the account.
pub async fn list(db: &PgPool, account: AccountId, page: PageRequest<SubscriptionId>) -> Result<Page<Subscription>> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor).await?.is_none()
    {
        return Err(unknown_cursor());
    }
    Ok(page.page(store::list(db, account, page.starting_after, page.fetch()).await?))
}

/// Subscriptions whose next cycle is due, those that have been due for longest first. It claims none: whoever bills one locks
/// it and looks again.
///
/// # Errors
/// Only the database's.
pub async fn due(db: &PgPool, scope: Scope, limit: i64) -> Result<Vec<Due>> {
    match scope {
        Scope::Everyone(at) => store::due_of_everyone(db, at, limit).await,
        Scope::Account(account, now) | Scope::Advance(account, now) => {
            store::due_of_account(db, account, now, limit).await
        }
    }
}

/// Locks a subscription that was found due; by now it may be no more. Among everyone's, one that somebody else holds is left to
/// them, and that is none; that of a single account is waited for, because whoever asks for one account wants all of it done.
/// Its clock is held; while another advances it, it is none.
///
/// # Errors
/// Only the database's.
pub async fn lock_due(tx: &mut PgConnection, scope: Scope, due: &Due) -> Result<Option<Subscription>> {
    if !scope.hold(tx).await? {
        return Ok(None);
    }
    match scope {
        Scope::Everyone(_) => store::lock_idle(tx, due.account_id, due.id).await,
        Scope::Account(..) | Scope::Advance(..) => store::lock(tx, due.account_id, due.id).await,
    }
}

/// Leaves a subscription alone until then, whatever is due.
///
/// # Errors
/// Only the database's.
pub async fn put_off(db: &PgPool, due: &Due, until: Timestamp) -> Result<()> {
    store::put_off(db, due, until).await
}

/// When the next cycle of any subscription of an account is due.
///
/// # Errors
/// Only the database's.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    store::next_due(db, account).await
}

/// How many of the account are not cancelled, so many at most.
///
/// # Errors
/// Only the database's.
pub async fn count_running(tx: &mut PgConnection, account: AccountId, most: i64) -> Result<i64> {
    store::count_running(tx, account, most).await
}

/// For how many seconds the subscription that has been due for longest has been; 0 if none is.
///
/// # Errors
/// Only the database's.
pub async fn oldest_due_seconds(db: &PgPool, at: Timestamp) -> Result<f64> {
    store::oldest_due_seconds(db, at).await
}
