//! Subscriptions: a customer pays a plan in each billing cycle. Each cycle creates an invoice, which is collected
//! immediately (`engine::run_due_subscriptions`).

mod cycles;
mod list;
mod status;
mod view;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use list::{Filter, list};
pub use status::Status;
pub use view::SubscriptionView;

use crate::accounts::{Mode, Scope};
use crate::events::{self, EventType};
use crate::invoices::{self, Invoice};
use crate::own_data::change_own_data;
use foundation::calendar::{Date, TimeZone};
use foundation::db::{self, Tx};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, InvoiceId, PaymentMethodId, PlanId, SubscriptionId};
use foundation::own_data::{ExternalId, Metadata, OwnData, OwnDataChange};
use foundation::time::Timestamp;

/// A subscription as stored.
#[derive(Clone, Debug)]
pub struct Subscription {
    pub id: SubscriptionId,
    pub account_id: AccountId,
    pub mode: Mode,
    pub customer_id: CustomerId,
    pub plan_id: PlanId,
    /// The card to charge; by default the customer's default card.
    pub payment_method_id: Option<PaymentMethodId>,
    pub status: Status,
    /// The time zone of the billing dates. Stored as a name, so that a machine that does not know the zone can still
    /// show it.
    pub timezone: String,
    /// The date from which billing dates are counted.
    pub anchor: Date,
    /// The start of the last billed cycle; `None` before the first.
    pub current_period_start: Option<Timestamp>,
    /// The end of that cycle.
    pub current_period_end: Option<Timestamp>,
    /// The date of the next cycle; `None` once cancelled.
    pub next_billing_date: Option<Date>,
    /// The start of that day.
    pub next_billing_at: Option<Timestamp>,
    /// The earliest time to retry a cycle that could not be billed.
    pub retry_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    /// Shown on its invoices instead of the plan's name.
    pub description: Option<String>,
    /// The invoice of the last billed cycle.
    pub latest_invoice_id: Option<InvoiceId>,
    pub metadata: Option<Metadata>,
    pub external_id: Option<ExternalId>,
    /// Rises with each change that the API shows.
    pub version: i64,
    pub created_at: Timestamp,
}

/// The validated input for a new subscription.
#[derive(Clone, Debug)]
pub struct NewSubscription {
    pub customer_id: CustomerId,
    pub plan_id: PlanId,
    /// The card to charge; by default the customer's default card.
    pub payment_method_id: Option<PaymentMethodId>,
    /// The date from which billing dates are counted; by default today.
    pub start_at: Option<Date>,
    pub timezone: TimeZone,
    /// Shown on its invoices instead of the plan's name.
    pub description: Option<String>,
    pub own: OwnData,
}

/// A subscription whose next cycle may be due. It is not locked.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub id: SubscriptionId,
    pub account_id: AccountId,
    pub plan_id: PlanId,
    /// The account's time.
    pub now: Timestamp,
}

/// Selects every column of a subscription; all queries share this list.
macro_rules! select_subscriptions {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Subscription,
            "SELECT s.id, s.account_id, a.mode, s.customer_id, s.plan_id, s.payment_method_id, s.status, s.timezone,
                    s.anchor, s.current_period_start, s.current_period_end, s.next_billing_date, s.next_billing_at,
                    s.retry_at, s.cancelled_at, s.description, s.metadata, s.external_id, s.version, s.created_at,
                    (SELECT i.id FROM invoices i WHERE i.account_id = s.account_id AND i.subscription_id = s.id
                     ORDER BY i.billing_period DESC LIMIT 1) AS \"latest_invoice_id?: InvoiceId\"
             FROM subscriptions s JOIN accounts a ON a.id = s.account_id " + $rest,
            $($arg),*
        )
    };
}

use select_subscriptions;

/// Inserts a subscription.
///
/// # Errors
/// [`Error::NotFound`] if the account has no such customer.
pub async fn insert(tx: &mut PgConnection, subscription: &Subscription) -> Result<()> {
    let query = sqlx::query!(
        "INSERT INTO subscriptions (id, account_id, customer_id, plan_id, payment_method_id, status, timezone, anchor,
                current_period_start, current_period_end, next_billing_date, next_billing_at, created_at,
                description, metadata, external_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
        subscription.id.uuid(),
        subscription.account_id.uuid(),
        subscription.customer_id.uuid(),
        subscription.plan_id.uuid(),
        subscription.payment_method_id.map(PaymentMethodId::uuid),
        subscription.status as Status,
        subscription.timezone,
        subscription.anchor,
        subscription.current_period_start,
        subscription.current_period_end,
        subscription.next_billing_date as Option<Date>,
        subscription.next_billing_at,
        subscription.created_at,
        subscription.description,
        subscription.metadata.as_ref() as Option<&Metadata>,
        subscription.external_id.as_deref(),
    );
    query.execute(tx).await.map(|_| ()).map_err(|error| match db::violated_constraint(&error) {
        Some("subscriptions_customer") => Error::no_such("customer", subscription.customer_id),
        _ => error.into(),
    })
}

/// Stores the changes of a locked subscription.
///
/// # Errors
/// Database errors only.
pub async fn save(tx: &mut PgConnection, subscription: &mut Subscription) -> Result<()> {
    subscription.version = sqlx::query_scalar!(
        "UPDATE subscriptions SET status = $3, current_period_start = $4, current_period_end = $5,
                next_billing_date = $6, next_billing_at = $7, retry_at = $8, cancelled_at = $9
         WHERE account_id = $1 AND id = $2 RETURNING version",
        subscription.account_id.uuid(),
        subscription.id.uuid(),
        subscription.status as Status,
        subscription.current_period_start,
        subscription.current_period_end,
        subscription.next_billing_date as Option<Date>,
        subscription.next_billing_at,
        subscription.retry_at,
        subscription.cancelled_at,
    )
    .fetch_one(tx)
    .await?;
    Ok(())
}

/// Creates an event with the current state of a subscription.
///
/// # Errors
/// Database errors only.
pub async fn announce(tx: &mut Tx, subscription: &Subscription, kind: EventType, now: Timestamp) -> Result<()> {
    let livemode = subscription.mode == Mode::Live;
    events::append(tx, subscription.account_id, livemode, kind, &SubscriptionView::new(subscription), now).await?;
    Ok(())
}

/// Cancels a locked subscription. The caller handles its invoices.
///
/// # Errors
/// [`Error::Internal`] if it is already cancelled.
pub async fn cancel(tx: &mut Tx, subscription: &mut Subscription, now: Timestamp) -> Result<()> {
    if !subscription.status.may_become(Status::Cancelled) {
        let (id, status) = (subscription.id, subscription.status);
        return Err(Error::internal(format!("{id} is {status:?} and cannot be cancelled")));
    }
    subscription.status = Status::Cancelled;
    subscription.next_billing_date = None;
    subscription.next_billing_at = None;
    subscription.retry_at = None;
    subscription.cancelled_at = Some(now);
    save(tx, subscription).await?;
    announce(tx, subscription, EventType::SubscriptionCancelled, now).await
}

/// Makes a locked subscription name another card of its customer. This has no event.
///
/// # Errors
/// Database errors only.
pub async fn set_card(tx: &mut PgConnection, subscription: &mut Subscription, card: PaymentMethodId) -> Result<()> {
    subscription.version = sqlx::query_scalar!(
        "UPDATE subscriptions SET payment_method_id = $3 WHERE account_id = $1 AND id = $2 RETURNING version",
        subscription.account_id.uuid(),
        subscription.id.uuid(),
        card.uuid(),
    )
    .fetch_one(tx)
    .await?;
    subscription.payment_method_id = Some(card);
    Ok(())
}

/// Marks a subscription as past due after an attempt to collect one of its invoices failed. The subscription and then
/// the invoice must be locked.
///
/// # Errors
/// Database errors only.
pub async fn invoice_failed(tx: &mut Tx, subscription: &mut Subscription, now: Timestamp) -> Result<()> {
    if !subscription.status.may_become(Status::PastDue) {
        return Ok(());
    }
    subscription.status = Status::PastDue;
    save(tx, subscription).await?;
    announce(tx, subscription, EventType::SubscriptionPastDue, now).await
}

/// Makes a past-due subscription active again if no failed invoice is left, after one of its invoices was stored as
/// paid or voided. The subscription and then the invoice must be locked. The invoice has an event, so the subscription
/// has none.
///
/// # Errors
/// Database errors only.
pub async fn invoice_paid(tx: &mut Tx, subscription: &mut Subscription) -> Result<()> {
    // A scheduled subscription becomes active only with its first cycle.
    if subscription.status != Status::PastDue
        || invoices::has_failed_invoice(tx, subscription.account_id, subscription.id).await?
    {
        return Ok(());
    }
    subscription.status = Status::Active;
    save(tx, subscription).await
}

/// Returns a subscription.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: impl PgExecutor<'_>, account: AccountId, id: SubscriptionId) -> Result<Subscription> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("subscription", id))
}

async fn find(db: impl PgExecutor<'_>, account: AccountId, id: SubscriptionId) -> Result<Option<Subscription>> {
    let query = select_subscriptions!("WHERE s.account_id = $1 AND s.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// Locks a subscription. Lock order: the customer, then the subscription, then its invoices.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: SubscriptionId) -> Result<Subscription> {
    lock_if_exists(tx, account, id).await?.ok_or_else(|| Error::no_such("subscription", id))
}

async fn lock_if_exists(tx: &mut PgConnection, account: AccountId, id: SubscriptionId) -> Result<Option<Subscription>> {
    // A later statement also sees the invoice of a cycle that was billed while this one waited.
    sqlx::query_scalar!(
        "SELECT id FROM subscriptions WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE",
        account.uuid(),
        id.uuid()
    )
    .fetch_optional(&mut *tx)
    .await?;
    find(tx, account, id).await
}

/// Locks the subscription that created an invoice, if any. The reference never changes, so the invoice can be read
/// before the subscription is locked; the invoice is locked afterwards.
///
/// # Errors
/// Database errors only.
pub async fn lock_producer(tx: &mut PgConnection, invoice: &Invoice) -> Result<Option<Subscription>> {
    match invoice.subscription_id {
        Some(id) => lock(tx, invoice.account_id, id).await.map(Some),
        None => Ok(None),
    }
}

/// Changes the merchant's own data. This has no event.
///
/// # Errors
/// [`Error::NotFound`]; 422 `metadata` if it becomes too large.
pub async fn update(
    db: &PgPool,
    account: AccountId,
    id: SubscriptionId,
    change: OwnDataChange,
) -> Result<Subscription> {
    let mut tx = db::begin(db).await?;
    change_own_data!(tx, "subscriptions", "subscription", account, id, change);
    let updated = retrieve(&mut *tx, account, id).await?;
    tx.commit().await?;
    Ok(updated)
}

/// Returns the subscriptions whose next cycle is due, longest overdue first. It claims none: the caller locks each one
/// and checks again.
///
/// # Errors
/// Database errors only.
pub async fn due(db: &PgPool, scope: Scope, limit: i64) -> Result<Vec<Due>> {
    match scope {
        Scope::AllAccounts(at) => due_of_all_accounts(db, at, limit).await,
        Scope::Account(account, now) | Scope::Advance(account, now) => due_of_account(db, account, now, limit).await,
    }
}

async fn due_of_all_accounts(db: &PgPool, at: Timestamp, limit: i64) -> Result<Vec<Due>> {
    let rows = sqlx::query_as!(
        Due,
        r#"SELECT id, account_id, plan_id, account_now(account_id, $1) AS "now!" FROM subscriptions
           WHERE next_billing_at IS NOT NULL AND greatest(next_billing_at, retry_at) <= $1
             AND NOT is_advancing(account_id)
           ORDER BY greatest(next_billing_at, retry_at) LIMIT $2"#,
        at,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

async fn due_of_account(db: &PgPool, account: AccountId, now: Timestamp, limit: i64) -> Result<Vec<Due>> {
    let rows = sqlx::query_as!(
        Due,
        r#"SELECT id, account_id, plan_id, $2::timestamptz AS "now!" FROM subscriptions
           WHERE next_billing_at IS NOT NULL
             AND (account_id, greatest(next_billing_at, retry_at)) >= ($1, '-infinity')
             AND (account_id, greatest(next_billing_at, retry_at)) <= ($1, $2)
           ORDER BY account_id, greatest(next_billing_at, retry_at) LIMIT $3"#,
        account.uuid(),
        now,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

/// Locks a subscription that was found due and holds its account's clock; the caller checks again whether it is due.
/// Returns `None` while another process advances the clock. For all accounts, it also returns `None` if the
/// subscription is locked; for a single account it waits for the lock, because its caller needs all due work of the
/// account done.
///
/// # Errors
/// Database errors only.
pub async fn lock_due(tx: &mut PgConnection, scope: Scope, due: &Due) -> Result<Option<Subscription>> {
    if !scope.hold(tx).await? {
        return Ok(None);
    }
    match scope {
        Scope::AllAccounts(_) => try_lock(tx, due.account_id, due.id).await,
        Scope::Account(..) | Scope::Advance(..) => lock_if_exists(tx, due.account_id, due.id).await,
    }
}

/// Locks the subscription and holds the account's clock. Returns `None` if another transaction has the lock or the
/// clock is being advanced.
async fn try_lock(tx: &mut PgConnection, account: AccountId, id: SubscriptionId) -> Result<Option<Subscription>> {
    let query = select_subscriptions!(
        "WHERE s.account_id = $1 AND s.id = $2 AND hold_clock(s.account_id) FOR NO KEY UPDATE OF s SKIP LOCKED",
        account.uuid(),
        id.uuid()
    );
    Ok(query.fetch_optional(tx).await?)
}

/// Defers a subscription's due cycle until `until`.
///
/// # Errors
/// Database errors only.
pub async fn defer(db: &PgPool, due: &Due, until: Timestamp) -> Result<()> {
    sqlx::query!(
        "UPDATE subscriptions SET retry_at = $3 WHERE account_id = $1 AND id = $2 AND next_billing_at IS NOT NULL",
        due.account_id.uuid(),
        due.id.uuid(),
        until,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns when the next cycle of any subscription of an account is due.
///
/// # Errors
/// Database errors only.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    Ok(sqlx::query_scalar!(
        r#"SELECT greatest(next_billing_at, retry_at) AS "at!" FROM subscriptions
           WHERE next_billing_at IS NOT NULL
             AND (account_id, greatest(next_billing_at, retry_at)) >= ($1, '-infinity')
             AND (account_id, greatest(next_billing_at, retry_at)) <= ($1, 'infinity')
           ORDER BY account_id, greatest(next_billing_at, retry_at) LIMIT 1"#,
        account.uuid(),
    )
    .fetch_optional(db)
    .await?)
}

/// Counts the account's subscriptions that are not cancelled, up to `limit`. `next_billing_at` is set exactly while a
/// subscription is not cancelled.
///
/// # Errors
/// Database errors only.
pub async fn count_running(tx: &mut PgConnection, account: AccountId, limit: i64) -> Result<i64> {
    Ok(sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
             SELECT FROM subscriptions
             WHERE next_billing_at IS NOT NULL
               AND (account_id, greatest(next_billing_at, retry_at)) >= ($1, '-infinity')
               AND (account_id, greatest(next_billing_at, retry_at)) <= ($1, 'infinity')
             ORDER BY account_id, greatest(next_billing_at, retry_at) LIMIT $2) running"#,
        account.uuid(),
        limit,
    )
    .fetch_one(tx)
    .await?)
}

/// Returns for how many seconds the longest overdue subscription has been due; 0 if none is due.
///
/// # Errors
/// Database errors only.
pub async fn oldest_due_seconds(db: &PgPool, at: Timestamp) -> Result<f64> {
    let seconds = sqlx::query_scalar!(
        r#"SELECT extract(epoch FROM $1 - greatest(next_billing_at, retry_at))::float8 AS "seconds!" FROM subscriptions
           WHERE next_billing_at IS NOT NULL AND greatest(next_billing_at, retry_at) <= $1
             AND NOT is_advancing(account_id)
           ORDER BY greatest(next_billing_at, retry_at) LIMIT 1"#,
        at,
    )
    .fetch_optional(db)
    .await?;
    Ok(seconds.unwrap_or(0.0))
}
