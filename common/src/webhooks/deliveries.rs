//! Deliveries as the merchant sees them: one for each attempt, made or still to be made.

use sqlx::{PgConnection, PgPool};

use super::store::{deliveries as store, endpoints};
use super::{DeliveryStatus, EndpointStatus};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::time::Timestamp;

/// A delivery as stored, with what it sends.
#[derive(Debug)]
pub struct Delivery {
    /// Its id.
    pub id: WebhookDeliveryId,
    /// Where it goes.
    pub endpoint_id: WebhookEndpointId,
    /// What it tells of.
    pub event_id: EventId,
    /// The event's type; none if the event is no longer kept.
    pub event_type: Option<String>,
    /// The bytes that are sent; none if the event is no longer kept.
    pub payload: Option<String>,
    /// From 1 on.
    pub attempt: i16,
    /// The delivery that it repeats, of a replay.
    pub replay_of: Option<WebhookDeliveryId>,
    /// What became of it.
    pub status: DeliveryStatus,
    /// Why it failed, by class.
    pub failure: Option<String>,
    /// Why nothing was answered.
    pub failure_message: Option<String>,
    /// The status that was answered.
    pub response_status: Option<i16>,
    /// The beginning of the body that was answered.
    pub response_body: Option<String>,
    /// From the start of the attempt to its end, in milliseconds.
    pub duration_ms: Option<i32>,
    /// When the attempt began.
    pub attempted_at: Option<Timestamp>,
    /// When a pending one is due; when a failed one is tried again.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was planned.
    pub created_at: Timestamp,
}

/// Which deliveries are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    /// Of this endpoint alone.
    pub endpoint: Option<WebhookEndpointId>,
    /// In this status alone.
    pub status: Option<DeliveryStatus>,
}

/// One delivery; of a deleted endpoint too.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: &PgPool, account: AccountId, id: WebhookDeliveryId) -> Result<Delivery> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("webhook delivery", id))
}

/// A page of deliveries, newest first; of a deleted endpoint too.
///
/// # Errors
/// [`Error::NotFound`] for an endpoint that the account never had; 422 for a cursor that names no delivery of this list.
/// What was pending when its page was read may have ended since: it goes on being a cursor of pending ones.
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
        let found = store::find(db, account, cursor).await?.ok_or_else(unknown_cursor)?;
        let of_endpoint = filter.endpoint.is_none_or(|endpoint| found.endpoint_id == endpoint);
        if !of_endpoint || !filter.status.is_none_or(|status| found.status.has_been(status)) {
            return Err(unknown_cursor());
        }
    }
    Ok(page.page(store::list(db, account, filter, page.starting_after, page.fetch()).await?))
}

/// Sends once more what a delivery sent, as a delivery of its own: due at once, tried once, and beside the retries of the
/// first, which go on as they would.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if the delivery has not been made yet, its endpoint is deleted or disabled, or
/// its event is no longer kept.
pub async fn replay(db: &Db, account: AccountId, id: WebhookDeliveryId, now: Timestamp) -> Result<Delivery> {
    let mut tx = db.begin().await?;
    let again = replay_within(&mut tx, account, id, now).await?;
    tx.commit().await?;
    Ok(again)
}

/// The same in a transaction of the caller's.
///
/// # Errors
/// As [`replay`].
pub async fn replay_within(
    tx: &mut PgConnection,
    account: AccountId,
    id: WebhookDeliveryId,
    now: Timestamp,
) -> Result<Delivery> {
    let first = store::find(&mut *tx, account, id).await?.ok_or_else(|| Error::no_such("webhook delivery", id))?;
    if first.status == DeliveryStatus::Pending {
        return Err(Error::conflict("the delivery has not been made yet"));
    }
    // Held until the new row is there, so that a deletion that comes meanwhile sees it.
    match endpoints::hold(tx, account, first.endpoint_id).await? {
        None => return Err(Error::conflict("the endpoint was deleted")),
        Some(EndpointStatus::Disabled) => return Err(Error::conflict("the endpoint is disabled; enable it first")),
        Some(EndpointStatus::Enabled) => {}
    }
    if first.payload.is_none() {
        return Err(Error::conflict("the event is no longer kept"));
    }
    let mut again = Delivery {
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
        ..first
    };
    again.next_attempt_at = Some(store::insert_due_now(tx, account, &again).await?);
    Ok(again)
}
