//! Subscriptions: a customer pays a plan in each billing cycle. Each cycle creates an invoice, which is collected
//! immediately (`engine::run_due_subscriptions`).

mod cycles;
mod list;
mod status;
mod view;

use std::collections::HashMap;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use list::{Filter, list};
pub use status::Status;
pub use view::SubscriptionView;

use crate::accounts::{Mode, Scope};
use crate::events::{self, Event, EventType};
use crate::invoices::{self, Invoice};
use crate::merchant_data::change_merchant_data;
use foundation::calendar::{Date, TimeZone};
use foundation::db::{self, Tx, column};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, InvoiceId, PaymentMethodId, PlanId, SubscriptionId};
use foundation::merchant_data::{ExternalId, MerchantData, MerchantDataChange, Metadata};
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
    pub merchant_data: MerchantData,
}

/// A locked subscription whose next cycle is due.
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

/// Stores the changes of locked subscriptions.
///
/// # Errors
/// Database errors only.
pub async fn save(tx: &mut PgConnection, subscriptions: &mut [&mut Subscription]) -> Result<()> {
    let saved = sqlx::query!(
        "UPDATE subscriptions s SET status = n.status, current_period_start = n.current_period_start,
                current_period_end = n.current_period_end, next_billing_date = n.next_billing_date,
                next_billing_at = n.next_billing_at, retry_at = n.retry_at, cancelled_at = n.cancelled_at
         FROM unnest($1::uuid[], $2::subscription_status[], $3::timestamptz[], $4::timestamptz[], $5::date[],
                $6::timestamptz[], $7::timestamptz[], $8::timestamptz[])
             AS n (id, status, current_period_start, current_period_end, next_billing_date, next_billing_at, retry_at,
                cancelled_at)
         WHERE s.id = n.id RETURNING s.id, s.version",
        &column(subscriptions, |subscription| subscription.id.uuid()),
        &column(subscriptions, |subscription| subscription.status) as &[Status],
        &column(subscriptions, |subscription| subscription.current_period_start) as &[Option<Timestamp>],
        &column(subscriptions, |subscription| subscription.current_period_end) as &[Option<Timestamp>],
        &column(subscriptions, |subscription| subscription.next_billing_date) as &[Option<Date>],
        &column(subscriptions, |subscription| subscription.next_billing_at) as &[Option<Timestamp>],
        &column(subscriptions, |subscription| subscription.retry_at) as &[Option<Timestamp>],
        &column(subscriptions, |subscription| subscription.cancelled_at) as &[Option<Timestamp>],
    )
    .fetch_all(tx)
    .await?;
    let versions: HashMap<_, _> = saved.into_iter().map(|row| (row.id, row.version)).collect();
    for subscription in subscriptions {
        subscription.version = *versions.get(&subscription.id).ok_or(sqlx::Error::RowNotFound)?;
    }
    Ok(())
}

/// The event that shows the current state of a subscription.
///
/// # Errors
/// [`Error::Internal`] if it cannot be rendered.
pub fn event(subscription: &Subscription, kind: EventType, now: Timestamp) -> Result<(AccountId, Event)> {
    let livemode = subscription.mode == Mode::Live;
    let event = events::render(livemode, kind, &SubscriptionView::new(subscription), now)?;
    Ok((subscription.account_id, event))
}

/// Creates an event with the current state of a subscription.
///
/// # Errors
/// Database errors only.
pub async fn announce(tx: &mut Tx, subscription: &Subscription, kind: EventType, now: Timestamp) -> Result<()> {
    events::append_all(tx, &[event(subscription, kind, now)?]).await
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
    save(tx, &mut [&mut *subscription]).await?;
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
    save(tx, &mut [&mut *subscription]).await?;
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
    save(tx, &mut [&mut *subscription]).await
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
    sqlx::query!(
        "SELECT id FROM subscriptions WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE",
        account.uuid(),
        id.uuid()
    )
    .fetch_optional(&mut *tx)
    .await?;
    // A later statement also sees the invoice of a cycle that was billed while this one waited.
    retrieve(tx, account, id).await
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
    change: MerchantDataChange,
) -> Result<Subscription> {
    let mut tx = db::begin(db).await?;
    change_merchant_data!(tx, "subscriptions", "subscription", account, id, change);
    let updated = retrieve(&mut *tx, account, id).await?;
    tx.commit().await?;
    Ok(updated)
}

/// Locks at most `limit` subscriptions whose next cycle is due, longest overdue first, and holds their accounts' clocks. For
/// all accounts, it skips those that are locked. For a single account it waits for the locks, because its caller needs all
/// due work of the account done; the caller checks again whether they are due. They are returned by account, because a
/// batch of which a part is rejected locks the counters of its accounts part by part.
///
/// # Errors
/// Database errors only.
pub async fn lock_due(tx: &mut PgConnection, scope: Scope, limit: i64) -> Result<Vec<Due>> {
    if !scope.hold(tx).await? {
        return Ok(Vec::new());
    }
    let mut due = match scope {
        Scope::AllAccounts(at) => lock_due_of_all_accounts(tx, at, limit).await?,
        Scope::Account(account, now) | Scope::Advance(account, now) => {
            lock_due_of_account(tx, account, now, limit).await?
        }
    };
    due.sort_by_key(|due| due.account_id);
    Ok(due)
}

async fn lock_due_of_all_accounts(tx: &mut PgConnection, at: Timestamp, limit: i64) -> Result<Vec<Due>> {
    let rows = sqlx::query_as!(
        Due,
        r#"SELECT id, account_id, plan_id, account_now(account_id, $1) AS "now!" FROM subscriptions
           WHERE next_billing_at IS NOT NULL AND greatest(next_billing_at, retry_at) <= $1 AND hold_clock(account_id)
           ORDER BY greatest(next_billing_at, retry_at) LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED"#,
        at,
        limit,
    );
    Ok(rows.fetch_all(tx).await?)
}

async fn lock_due_of_account(
    tx: &mut PgConnection,
    account: AccountId,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<Due>> {
    let rows = sqlx::query_as!(
        Due,
        r#"WITH due AS MATERIALIZED (
               SELECT id FROM subscriptions
               WHERE next_billing_at IS NOT NULL
                 AND (account_id, greatest(next_billing_at, retry_at)) >= ($1, '-infinity')
                 AND (account_id, greatest(next_billing_at, retry_at)) <= ($1, $2)
               ORDER BY account_id, greatest(next_billing_at, retry_at) LIMIT $3)
           SELECT locked.id AS "id!: SubscriptionId", locked.account_id AS "account_id!: AccountId",
                  locked.plan_id AS "plan_id!: PlanId", $2::timestamptz AS "now!"
           FROM unnest(ARRAY(SELECT id FROM due ORDER BY id)) AS n (id)
           CROSS JOIN LATERAL (SELECT s.id, s.account_id, s.plan_id FROM subscriptions s
               WHERE s.id = n.id FOR NO KEY UPDATE) locked"#,
        account.uuid(),
        now,
        limit,
    );
    Ok(rows.fetch_all(tx).await?)
}

/// Returns those of the subscriptions that exist, of any account.
///
/// # Errors
/// Database errors only.
pub async fn find_all(
    db: impl PgExecutor<'_>,
    ids: &[SubscriptionId],
) -> Result<HashMap<SubscriptionId, Subscription>> {
    let query = select_subscriptions!("WHERE s.id = ANY ($1)", &column(ids, |id| id.uuid()));
    Ok(query.fetch_all(db).await?.into_iter().map(|subscription| (subscription.id, subscription)).collect())
}

/// Defers a locked subscription's due cycle until `until`.
///
/// # Errors
/// Database errors only.
pub async fn defer(tx: &mut PgConnection, due: &Due, until: Timestamp) -> Result<()> {
    sqlx::query!(
        "UPDATE subscriptions SET retry_at = $3 WHERE account_id = $1 AND id = $2 AND next_billing_at IS NOT NULL",
        due.account_id.uuid(),
        due.id.uuid(),
        until,
    )
    .execute(tx)
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
