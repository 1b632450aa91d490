//! Events. An event is written in the transaction of the change it reports, as the exact bytes that every delivery
//! sends.

mod erase;
mod read;

use std::time::Duration;

use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use tokio::time::sleep;
use utoipa::ToSchema;

use foundation::clock::Clock;
use foundation::db::{Tx, column, is_retryable};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, EventId, RefundId};
use foundation::queues;
use foundation::time::Timestamp;

pub use erase::{erase, lock_shared};
pub use read::{EventView, Filter, Following, list, retrieve};

macro_rules! event_types {
    ($($name:ident = $text:literal: $meaning:literal,)*) => {
        /// The event types (docs/webhooks.md, Events).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventType { $($name,)* }

        impl EventType {
            /// All event types.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The event types that an endpoint can enable. A test goes to its endpoint, whatever that has enabled.
            pub fn subscribable() -> impl Iterator<Item = Self> {
                Self::ALL.iter().copied().filter(|kind| *kind != Self::WebhookEndpointTest)
            }

            /// `resource.what_happened`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// When it is sent.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

event_types! {
    CustomerCreated = "customer.created": "A customer was created.",
    CustomerUpdated = "customer.updated": "An update changed a customer.",
    CustomerDeleted = "customer.deleted": "A customer was deleted; only the id is left.",
    PaymentMethodCreated = "payment_method.created": "A card was saved.",
    PaymentMethodDetached = "payment_method.detached": "A saved card was removed.",
    PaymentAuthorized = "payment.authorized": "A payment with `capture: false` was authorized, in full or in part.",
    PaymentCaptured = "payment.captured": "A payment with `capture: true` was authorized, in full or in part, or one was captured later.",
    PaymentDeclined = "payment.declined": "The issuer refused a payment: see `declineCode`.",
    PaymentSettled = "payment.settled": "The provider settled a payment.",
    PaymentCancelled = "payment.cancelled": "A payment was voided.",
    PaymentExpired = "payment.expired": "The authorization of a payment expired.",
    PaymentRequiresAction = "payment.requires_action": "The cardholder must authenticate: see `nextAction`.",
    PaymentRefunded = "payment.refunded": "A refund of a payment succeeded, in full or in part: `data.refundId`.",
    PaymentRefundFailed = "payment.refund_failed": "A refund of a payment failed: `data.refundId`, see its `failureCode`.",
    PaymentFailed = "payment.failed": "A payment failed and nothing was charged: see `failureCode`.",
    PaymentCaptureFailed = "payment.capture_failed": "A capture failed and the payment is unchanged: see `failureCode`.",
    PaymentVoidFailed = "payment.void_failed": "A void failed and the payment is unchanged: see `failureCode`.",
    DisputeCreated = "dispute.created": "A payment was disputed, and the money withdrawn.",
    DisputeClosed = "dispute.closed": "A dispute was won or lost: see `status`. A lost one may be won later.",
    WebhookEndpointDisabled = "webhook_endpoint.disabled": "The service disabled an endpoint. Sent to the account's other endpoints.",
    WebhookEndpointTest = "webhook_endpoint.test": "You tested the endpoint. It cannot be in `enabledEvents`.",
    InvoiceIssued = "invoice.issued": "An invoice was issued, by a request or from a draft.",
    InvoiceScheduled = "invoice.scheduled": "An invoice was scheduled for collection.",
    InvoicePaid = "invoice.paid": "An invoice was paid.",
    InvoicePaymentFailed = "invoice.payment_failed": "An attempt to collect an invoice failed.",
    InvoiceCollectionExhausted = "invoice.collection_exhausted": "The last retry to collect an invoice failed; it is open again.",
    InvoiceVoided = "invoice.voided": "An invoice was voided.",
    SubscriptionCreated = "subscription.created": "A subscription was created, whether or not the first cycle was billed.",
    SubscriptionRenewed = "subscription.renewed": "A cycle after the first was billed.",
    SubscriptionPastDue = "subscription.past_due": "An invoice of an active subscription could not be collected.",
    SubscriptionCancelled = "subscription.cancelled": "A subscription was cancelled.",
    RecurringInvoicePaused = "recurring_invoice.paused": "A recurring invoice was paused.",
    RecurringInvoiceResumed = "recurring_invoice.resumed": "A recurring invoice was resumed after being paused or parked.",
    RecurringInvoiceParked = "recurring_invoice.parked": "A recurring invoice was stopped after three failed attempts in a row to create an invoice.",
    RecurringInvoiceCompleted = "recurring_invoice.completed": "The last invoice was created, or an update or resume left no date.",
    RecurringInvoiceCancelled = "recurring_invoice.cancelled": "A recurring invoice was cancelled.",
    PaymentLinkPaid = "payment_link.paid": "A payment link was paid.",
    PaymentLinkExpired = "payment_link.expired": "A payment link expired.",
    PaymentLinkCancelled = "payment_link.cancelled": "A payment link was cancelled.",
}

/// The body of a webhook.
#[derive(Serialize, ToSchema)]
pub struct Payload<'a, T> {
    /// Identifies the event; the same in each delivery.
    id: EventId,
    /// What happened.
    #[serde(rename = "type")]
    #[schema(value_type = EventType)]
    kind: &'static str,
    /// When it happened, by the account's clock.
    timestamp: Timestamp,
    livemode: bool,
    /// What the event is about.
    data: Data<'a, T>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Data<'a, T> {
    /// The object as it was then.
    object: &'a T,
    /// The refund that the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_id: Option<RefundId>,
}

/// An event to write.
#[derive(Debug)]
pub struct Event {
    pub id: EventId,
    pub kind: EventType,
    /// The exact bytes that every delivery sends.
    pub payload: String,
    /// The time of writing by the system clock, not by a test clock: partitions and retention depend on it.
    pub at: Timestamp,
}

/// Renders an event for a statement that writes it together with other rows. The payload shows `now`, the account's
/// time. The id contains the system time, because the tables are partitioned by the time in their ids.
///
/// # Errors
/// [`Error::Internal`] if the object cannot be serialized.
pub fn render(livemode: bool, kind: EventType, object: &impl Serialize, now: Timestamp) -> Result<Event> {
    render_for_refund(livemode, kind, object, None, now)
}

fn render_for_refund(
    livemode: bool,
    kind: EventType,
    object: &impl Serialize,
    refund_id: Option<RefundId>,
    now: Timestamp,
) -> Result<Event> {
    let at = Clock::system().now();
    let id = EventId::in_order(at);
    let payload = Payload { id, kind: kind.name(), timestamp: now, livemode, data: Data { object, refund_id } };
    let payload = serde_json::to_string(&payload).map_err(|e| Error::internal(format!("event of {kind:?}: {e}")))?;
    Ok(Event { id, kind, payload, at })
}

/// Writes an event with the object's current API representation and no delivery.
///
/// # Errors
/// Database errors only.
pub(crate) async fn insert(
    tx: &mut PgConnection,
    account: AccountId,
    livemode: bool,
    kind: EventType,
    object: &impl Serialize,
    now: Timestamp,
) -> Result<Event> {
    let event = render(livemode, kind, object, now)?;
    sqlx::query!(
        "INSERT INTO events (id, account_id, type, payload, created_at, xact)
         VALUES ($1, $2, $3, $4, $5, pg_current_xact_id()::text::bigint)",
        event.id.uuid(),
        account.uuid(),
        event.kind.name(),
        event.payload,
        event.at,
    )
    .execute(tx)
    .await?;
    Ok(event)
}

/// Writes an event with the object's current API representation, and a delivery for each subscribed endpoint. The
/// commit wakes the deliveries.
///
/// # Errors
/// Database errors only.
pub async fn append(
    tx: &mut Tx,
    account: AccountId,
    livemode: bool,
    kind: EventType,
    object: &impl Serialize,
    now: Timestamp,
) -> Result<EventId> {
    append_for_refund(tx, account, livemode, kind, object, None, now).await
}

/// As [`append`], for an event about one refund of a payment.
///
/// # Errors
/// Database errors only.
pub async fn append_for_refund(
    tx: &mut Tx,
    account: AccountId,
    livemode: bool,
    kind: EventType,
    object: &impl Serialize,
    refund_id: Option<RefundId>,
    now: Timestamp,
) -> Result<EventId> {
    let event = render_for_refund(livemode, kind, object, refund_id, now)?;
    let id = event.id;
    append_all(tx, &[(account, event)]).await?;
    Ok(id)
}

/// As [`append`], for rendered events of these accounts.
///
/// # Errors
/// Database errors only.
pub async fn append_all(tx: &mut Tx, events: &[(AccountId, Event)]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let endpoints = sqlx::query_scalar!(
        r#"SELECT DISTINCT endpoint AS "endpoint!" FROM emit_events($1, $2, $3, $4, $5) AS endpoint"#,
        &column(events, |(_, event)| event.id.uuid()),
        &column(events, |(account, _)| account.uuid()),
        &column(events, |(_, event)| event.kind.name()) as _,
        &column(events, |(_, event)| event.payload.as_str()) as _,
        &column(events, |(_, event)| event.at) as &[Timestamp],
    )
    .fetch_all(&mut **tx)
    .await?;
    for endpoint in endpoints {
        tx.wake(queues::WEBHOOKS, endpoint);
    }
    Ok(())
}

/// The tables that are partitioned by month.
const PARTITIONED_TABLES: [&str; 2] = ["events", "webhook_deliveries"];

/// Months with a partition, including the current one. One more than `ctl doctor` requires, so that it reports nothing
/// at the beginning of a month.
const PARTITION_MONTHS: i32 = 4;

/// Attempts to lock a whole table. Each waits only briefly, because other statements queue behind a waiting lock;
/// between the attempts they proceed.
const LOCK_ATTEMPTS: usize = 5;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Creates the missing partitions of the current and coming months, and returns how many were created. Uses the
/// database's clock, because that of a process may be wrong.
///
/// # Errors
/// Database errors only, for example if a table could not be locked. The other tables are processed nevertheless.
pub async fn ensure_partitions(db: &PgPool) -> Result<i32> {
    let mut created = Ok(0);
    for table in PARTITIONED_TABLES {
        let create = || {
            sqlx::query_scalar!(
                "SELECT ensure_monthly_partitions($1::text::regclass, clock_timestamp(), $2)",
                table,
                PARTITION_MONTHS
            )
            .fetch_one(db)
        };
        created = add(created, retry_transient(create).await);
    }
    created
}

async fn retry_transient<T>(change: impl AsyncFn() -> Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
    for _ in 1..LOCK_ATTEMPTS {
        match change().await {
            Err(error) if is_retryable(&error) => sleep(LOCK_RETRY_DELAY).await,
            result => return result,
        }
    }
    change().await
}

/// Adds the count of another table, or returns the first error.
fn add(total: Result<i32>, count: Result<Option<i32>, sqlx::Error>) -> Result<i32> {
    Ok(total? + count?.unwrap_or(0))
}

/// Drops the partitions of months that ended at least `months` months ago by the database's clock, and returns how many
/// were dropped. Their payloads can no longer be replayed.
///
/// # Errors
/// As [`ensure_partitions`].
pub async fn drop_partitions(db: &PgPool, months: i32) -> Result<i32> {
    let mut dropped = Ok(0);
    for table in PARTITIONED_TABLES {
        let drop = || {
            sqlx::query_scalar!(
                "SELECT drop_monthly_partitions($1::text::regclass, clock_timestamp() - make_interval(months => $2))",
                table,
                months,
            )
            .fetch_one(db)
        };
        dropped = add(dropped, retry_transient(drop).await);
    }
    dropped
}
