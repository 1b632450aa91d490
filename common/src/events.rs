//! Events: what happened, written in the transaction that makes it true, as the bytes that every delivery will send.

use std::time::Duration;

use serde::Serialize;
use sqlx::PgPool;
use tokio::time::sleep;

use crate::clock::Clock;
use crate::db::{Tx, worth_repeating};
use crate::error::{Error, Result};
use crate::id::{AccountId, EventId, RefundId};
use crate::queues;
use crate::time::Timestamp;

macro_rules! event_types {
    ($($name:ident = $text:literal,)*) => {
        /// The kinds of events (docs/webhooks.md, Events).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is named and described by its text")]
        pub enum EventType { $($name,)* }

        impl EventType {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// `resource.what_happened`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

event_types! {
    CustomerCreated = "customer.created",
    CustomerUpdated = "customer.updated",
    PaymentMethodCreated = "payment_method.created",
    PaymentAuthorized = "payment.authorized",
    PaymentCaptured = "payment.captured",
    PaymentDeclined = "payment.declined",
    PaymentSettled = "payment.settled",
    PaymentCancelled = "payment.cancelled",
    PaymentExpired = "payment.expired",
    PaymentRequiresAction = "payment.requires_action",
    PaymentRefunded = "payment.refunded",
    PaymentRefundFailed = "payment.refund_failed",
    PaymentFailed = "payment.failed",
    PaymentCaptureFailed = "payment.capture_failed",
    PaymentVoidFailed = "payment.void_failed",
    WebhookEndpointDisabled = "webhook_endpoint.disabled",
    InvoiceIssued = "invoice.issued",
    InvoiceScheduled = "invoice.scheduled",
    InvoicePaid = "invoice.paid",
    InvoicePaymentFailed = "invoice.payment_failed",
    InvoiceCollectionExhausted = "invoice.collection_exhausted",
    InvoiceVoided = "invoice.voided",
    SubscriptionCreated = "subscription.created",
    SubscriptionRenewed = "subscription.renewed",
    SubscriptionPastDue = "subscription.past_due",
    SubscriptionCancelled = "subscription.cancelled",
    RecurringInvoicePaused = "recurring_invoice.paused",
    RecurringInvoiceResumed = "recurring_invoice.resumed",
    RecurringInvoiceParked = "recurring_invoice.parked",
    RecurringInvoiceCompleted = "recurring_invoice.completed",
    RecurringInvoiceCancelled = "recurring_invoice.cancelled",
    PaymentLinkPaid = "payment_link.paid",
    PaymentLinkExpired = "payment_link.expired",
    PaymentLinkCancelled = "payment_link.cancelled",
}

#[derive(Serialize)]
struct Payload<'a, T> {
    id: EventId,
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: Timestamp,
    livemode: bool,
    data: Data<'a, T>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a, T> {
    object: &'a T,
    /// Which of the object's refunds has come to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_id: Option<RefundId>,
}

/// An event about to be written.
#[derive(Debug)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// What has happened.
    pub kind: EventType,
    /// The bytes that every delivery sends.
    pub payload: String,
    /// When it is written, by everyone's time: events and deliveries are kept and forgotten by it.
    pub at: Timestamp,
}

/// An event, for a statement that writes it with other things. It shows `now`, the account's time; its id is of everyone's,
/// for the tables are cut by the time in their ids.
///
/// # Errors
/// [`Error::Internal`] if the object is no JSON.
pub fn render(livemode: bool, kind: EventType, object: &impl Serialize, now: Timestamp) -> Result<Event> {
    render_about(livemode, kind, object, None, now)
}

fn render_about(
    livemode: bool,
    kind: EventType,
    object: &impl Serialize,
    refund_id: Option<RefundId>,
    now: Timestamp,
) -> Result<Event> {
    let at = Clock::system().now();
    let id = EventId::new(at);
    let payload = Payload { id, kind: kind.name(), timestamp: now, livemode, data: Data { object, refund_id } };
    let payload = serde_json::to_string(&payload).map_err(|e| Error::internal(format!("event of {kind:?}: {e}")))?;
    Ok(Event { id, kind, payload, at })
}

/// Writes an event about an object as the API shows it at this moment, with a delivery for each endpoint that is to hear of
/// it. They are woken by the commit.
///
/// # Errors
/// Only the database's.
pub async fn append(
    tx: &mut Tx,
    account: AccountId,
    livemode: bool,
    kind: EventType,
    object: &impl Serialize,
    now: Timestamp,
) -> Result<EventId> {
    append_about(tx, account, livemode, kind, object, None, now).await
}

/// The same of an event about one refund of a payment, which it names.
///
/// # Errors
/// Only the database's.
pub async fn append_about(
    tx: &mut Tx,
    account: AccountId,
    livemode: bool,
    kind: EventType,
    object: &impl Serialize,
    refund_id: Option<RefundId>,
    now: Timestamp,
) -> Result<EventId> {
    let event = render_about(livemode, kind, object, refund_id, now)?;
    let endpoints = sqlx::query_scalar!(
        r#"SELECT endpoint AS "endpoint!" FROM emit_event($1, $2, $3, $4, $5) AS endpoint"#,
        event.id.uuid(),
        account.uuid(),
        event.kind.name(),
        event.payload,
        event.at,
    )
    .fetch_all(&mut **tx)
    .await?;
    for endpoint in endpoints {
        tx.wake(queues::WEBHOOKS, endpoint);
    }
    Ok(event.id)
}

/// Tables that grow for ever, cut by month: what happened, and every attempt to tell of it.
const BY_MONTH: [&str; 2] = ["events", "webhook_deliveries"];

/// Months that have a partition, this one included: one more than `ctl doctor` asks for, which would find the last one missing at
/// the beginning of each month.
const MONTHS: i32 = 4;

/// How often the lock on a whole table is tried for. It is waited for a moment, for everybody waits behind whoever waits for
/// it, and in between everybody goes on.
const TRIES: usize = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// Makes the partitions of the coming months where they are missing; answers how many were made. The month is the database's: the
/// clock of one process may be anywhere.
///
/// # Errors
/// Only the database's: where a table is busy for long, its lock is not had. The others are looked after all the same.
pub async fn ensure_partitions(db: &PgPool) -> Result<i32> {
    let mut made = Ok(0);
    for table in BY_MONTH {
        let make = || {
            sqlx::query_scalar!(
                "SELECT ensure_monthly_partitions($1::text::regclass, clock_timestamp(), $2)",
                table,
                MONTHS
            )
            .fetch_one(db)
        };
        made = both(made, try_for_lock(make).await);
    }
    made
}

async fn try_for_lock<T>(change: impl AsyncFn() -> Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
    for _ in 1..TRIES {
        match change().await {
            Err(error) if worth_repeating(&error) => sleep(BETWEEN_TRIES).await,
            done => return done,
        }
    }
    change().await
}

/// What was done to one table more, or the first failure.
fn both(done: Result<i32>, more: Result<Option<i32>, sqlx::Error>) -> Result<i32> {
    Ok(done? + more?.unwrap_or(0))
}

/// Drops the partitions of months that ended at least so many months ago by the database's clock; answers how many. A payload
/// that is gone can no longer be replayed.
///
/// # Errors
/// As for [`ensure_partitions`].
pub async fn drop_partitions(db: &PgPool, months: i32) -> Result<i32> {
    let mut dropped = Ok(0);
    for table in BY_MONTH {
        let drop = || {
            sqlx::query_scalar!(
                "SELECT drop_monthly_partitions($1::text::regclass, clock_timestamp() - make_interval(months => $2))",
                table,
                months,
            )
            .fetch_one(db)
        };
        dropped = both(dropped, try_for_lock(drop).await);
    }
    dropped
}
