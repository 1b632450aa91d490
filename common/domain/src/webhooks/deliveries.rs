//! Deliveries as the merchant sees them: one for each attempt, past or pending.

use sqlx::{PgConnection, PgPool};

use super::store::{deliveries as store, endpoints};
use super::{DeliveryStatus, EndpointStatus};
use foundation::db::Db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::time::Timestamp;

/// A delivery with the payload of its event.
#[derive(Debug)]
pub struct Delivery {
    pub id: WebhookDeliveryId,
    pub endpoint_id: WebhookEndpointId,
    pub event_id: EventId,
    /// `None` once the event is past its retention period.
    pub event_type: Option<String>,
    /// The bytes sent. `None` once the event is past its retention period.
    pub payload: Option<String>,
    /// Starts at 1.
    pub attempt: i16,
    /// The delivery that this replay repeats.
    pub replay_of: Option<WebhookDeliveryId>,
    pub status: DeliveryStatus,
    /// Why it failed: the name of a [`super::dispatch::Failure`].
    pub failure: Option<String>,
    /// Why there was no response.
    pub failure_message: Option<String>,
    pub response_status: Option<i16>,
    /// The first 4 KiB of the response body.
    pub response_body: Option<String>,
    /// From the start of the attempt to its end, in milliseconds.
    pub duration_ms: Option<i32>,
    /// When the attempt began.
    pub attempted_at: Option<Timestamp>,
    /// When a pending delivery is due, or a failed one is retried.
    pub next_attempt_at: Option<Timestamp>,
    /// When the delivery was scheduled.
    pub created_at: Timestamp,
}

/// Restricts a list of deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    pub endpoint: Option<WebhookEndpointId>,
    pub status: Option<DeliveryStatus>,
}

/// One delivery. Deliveries to a deleted endpoint remain readable.
///
/// # Errors
/// [`Error::NotFound`], also for a delivery of another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: WebhookDeliveryId) -> Result<Delivery> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("webhook delivery", id))
}

/// A page of deliveries, newest first. Deliveries to a deleted endpoint remain readable.
///
/// # Errors
/// [`Error::NotFound`] for an endpoint that the account never had; 422 for a cursor that names no delivery of this
/// list. A delivery that was pending when its page was read remains a valid cursor for pending deliveries after it has
/// ended.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    filter: Filter,
    page: PageRequest<WebhookDeliveryId>,
) -> Result<Page<Delivery>> {
    if let Some(endpoint) = filter.endpoint
        && !endpoints::has_existed(db, account, endpoint).await?
    {
        return Err(Error::no_such("webhook endpoint", endpoint));
    }
    if let Some(cursor) = page.starting_after {
        let delivery = store::find(db, account, cursor).await?.ok_or_else(unknown_cursor)?;
        let of_endpoint = filter.endpoint.is_none_or(|endpoint| delivery.endpoint_id == endpoint);
        if !of_endpoint || !filter.status.is_none_or(|status| delivery.status.has_been(status)) {
            return Err(unknown_cursor());
        }
    }
    Ok(page.page(store::list(db, account, filter, page.starting_after, page.fetch()).await?))
}

/// Sends the payload of a delivery again as a separate delivery, due at once and tried once. The retries of the
/// original delivery continue unchanged.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if the delivery is still pending, its endpoint is deleted or disabled, or
/// its event is past the retention period.
pub async fn replay(db: &Db, account: AccountId, id: WebhookDeliveryId, now: Timestamp) -> Result<Delivery> {
    let mut tx = db.begin().await?;
    let replay = replay_within(&mut tx, account, id, now).await?;
    tx.commit().await?;
    Ok(replay)
}

/// As [`replay`], in the caller's transaction.
///
/// # Errors
/// As [`replay`].
pub async fn replay_within(
    tx: &mut PgConnection,
    account: AccountId,
    id: WebhookDeliveryId,
    now: Timestamp,
) -> Result<Delivery> {
    let original = store::find(&mut *tx, account, id).await?.ok_or_else(|| Error::no_such("webhook delivery", id))?;
    if original.status == DeliveryStatus::Pending {
        return Err(Error::conflict("the delivery is still pending"));
    }
    // Locked until the new row is written, so that a concurrent deletion sees that row.
    match endpoints::lock_shared(tx, account, original.endpoint_id).await? {
        None => return Err(Error::conflict("the endpoint was deleted")),
        Some(EndpointStatus::Disabled) => return Err(Error::conflict("the endpoint is disabled; enable it first")),
        Some(EndpointStatus::Enabled) => {}
    }
    if original.payload.is_none() {
        return Err(Error::conflict("the event is past its retention period"));
    }
    let mut replay = Delivery {
        id: WebhookDeliveryId::new(now),
        attempt: 1,
        replay_of: Some(id),
        status: DeliveryStatus::Pending,
        failure: None,
        failure_message: None,
        response_status: None,
        response_body: None,
        duration_ms: None,
        attempted_at: None,
        next_attempt_at: None,
        created_at: now,
        ..original
    };
    replay.next_attempt_at = Some(store::insert_due_now(tx, account, &replay).await?);
    Ok(replay)
}
