//! Deliveries as the merchant sees them: one for each attempt, past or pending.

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::endpoints;
use super::status::{DeliveryStatus, EndpointStatus};
use crate::events;
use foundation::db::Db;
use foundation::error::{Error, Result};
use foundation::filter::Reference;
use foundation::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::time::Timestamp;

/// Deliveries that [`of_events`] returns.
const MAX_OF_EVENTS: i64 = 1_000;

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

foundation::filters! {
    /// Filters of the list of deliveries.
    pub struct Filter {
        /// Only deliveries to this endpoint, which may be deleted.
        endpoint_id("endpointId"): Option<Reference<WebhookEndpointId>>,
        /// Only deliveries of this event, which may be past its retention period.
        event_id("eventId"): Option<EventId>,
        /// Only deliveries in this status.
        status("status"): Option<DeliveryStatus>,
    }
}

foundation::filter_by_name!(DeliveryStatus);

/// The common columns, with one condition for pending and one for attempted deliveries. The account is checked in the
/// outer query, where it does not influence which index is chosen. Events are looked up row by row, because a plan for
/// an unknown number of rows would read all events.
macro_rules! select_deliveries {
    ([$($pending:tt)+], [$($attempted:tt)+], $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Delivery,
            r#"SELECT d.id AS "id!: WebhookDeliveryId", d.endpoint_id AS "endpoint_id!: WebhookEndpointId",
                      d.event_id AS "event_id!: EventId", e.type AS "event_type?", e.payload AS "payload?",
                      d.attempt AS "attempt!", d.replay_of AS "replay_of?: WebhookDeliveryId",
                      d.status AS "status!: DeliveryStatus", d.failure AS "failure?", d.failure_message AS "failure_message?",
                      d.response_status AS "response_status?", d.response_body AS "response_body?",
                      d.duration_ms AS "duration_ms?", d.attempted_at AS "attempted_at?",
                      d.next_attempt_at AS "next_attempt_at?", d.created_at AS "created_at!"
               FROM ((SELECT id, account_id, endpoint_id, event_id, attempt, replay_of,
                             'pending'::webhook_delivery_status AS status, NULL AS failure, NULL AS failure_message,
                             NULL::smallint AS response_status, NULL AS response_body, NULL::integer AS duration_ms,
                             NULL::timestamptz AS attempted_at, due_at AS next_attempt_at, created_at
                      FROM webhook_pending WHERE "# + $($pending)+ + r#")
                     UNION ALL
                     (SELECT id, account_id, endpoint_id, event_id, attempt, replay_of, status, failure, failure_message,
                             response_status, response_body, duration_ms, attempted_at, next_attempt_at, created_at
                      FROM webhook_deliveries WHERE "# + $($attempted)+ + r#")) d
               LEFT JOIN LATERAL (SELECT type, payload FROM events WHERE id = d.event_id AND account_id = $1 LIMIT 1) e
                   ON true
               WHERE d.account_id = $1 ORDER BY d.id DESC"#,
            $($arg),*
        )
    };
}

/// One delivery. Deliveries to a deleted endpoint remain readable.
///
/// # Errors
/// [`Error::NotFound`], also for a delivery of another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: WebhookDeliveryId) -> Result<Delivery> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("webhook delivery", id))
}

async fn find(db: impl PgExecutor<'_>, account: AccountId, id: WebhookDeliveryId) -> Result<Option<Delivery>> {
    let query =
        select_deliveries!(["account_id = $1 AND id = $2"], ["account_id = $1 AND id = $2"], account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
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
    filter: &Filter,
    page: PageRequest<WebhookDeliveryId>,
) -> Result<Page<Delivery>> {
    let endpoint = filter.endpoint_id.as_ref().map(|id| WebhookEndpointId::from_request(id.text())).transpose()?;
    if let Some(endpoint) = endpoint
        && !endpoints::has_existed(db, account, endpoint).await?
    {
        return Err(Error::no_such("webhook endpoint", endpoint));
    }
    if let Some(cursor) = page.starting_after {
        let delivery = find(db, account, cursor).await?.ok_or_else(unknown_cursor)?;
        let is_in_list = endpoint.is_none_or(|endpoint| delivery.endpoint_id == endpoint)
            && filter.event_id.is_none_or(|event| delivery.event_id == event)
            && filter.status.is_none_or(|status| delivery.status.has_been(status));
        if !is_in_list {
            return Err(unknown_cursor());
        }
    }
    if let Some(event) = filter.event_id {
        let mut rows = of_events(db, account, &[event]).await?;
        rows.retain(|delivery| {
            endpoint.is_none_or(|endpoint| delivery.endpoint_id == endpoint)
                && filter.status.is_none_or(|status| delivery.status == status)
                && page.starting_after.is_none_or(|cursor| delivery.id.uuid() < cursor.uuid())
        });
        rows.truncate(usize::try_from(page.fetch()).unwrap_or(usize::MAX));
        return Ok(page.page(rows));
    }
    Ok(page.page(newest(db, account, (endpoint, filter.status), page.starting_after, page.fetch()).await?))
}

/// The deliveries of these events, newest first, but at most [`MAX_OF_EVENTS`]: one per endpoint and attempt, and the
/// replays.
///
/// # Errors
/// Database errors only.
pub async fn of_events(db: &PgPool, account: AccountId, events: &[EventId]) -> Result<Vec<Delivery>> {
    let events: Vec<Uuid> = events.iter().map(|event| event.uuid()).collect();
    // The limit also keeps the account out of the choice of the index.
    let query = select_deliveries!(
        ["event_id = ANY ($2) LIMIT $3"],
        ["event_id = ANY ($2) LIMIT $3"],
        account.uuid(),
        &events,
        MAX_OF_EVENTS,
    );
    Ok(query.fetch_all(db).await?)
}

/// The newest deliveries before a cursor. Each combination of filters has its own statement: a common one would get a
/// plan that fits none of them and would read rows only to filter them out.
async fn newest(
    db: &PgPool,
    account: AccountId,
    (endpoint, status): (Option<WebhookEndpointId>, Option<DeliveryStatus>),
    after: Option<WebhookDeliveryId>,
    limit: i64,
) -> Result<Vec<Delivery>> {
    let before = after.map_or(Uuid::max(), WebhookDeliveryId::uuid);
    let endpoint = endpoint.map(WebhookEndpointId::uuid);
    // A table that the filter excludes gets LIMIT 0 and is then not read.
    let (pending, attempted) = match status {
        None => (limit, limit),
        Some(DeliveryStatus::Pending) => (limit, 0),
        Some(DeliveryStatus::Succeeded | DeliveryStatus::Failed) => (0, limit),
    };
    macro_rules! page {
        ($endpoint:tt, $status:tt) => {
            select_deliveries!(
                [$endpoint + " AND id < $3 ORDER BY id DESC LIMIT $4"],
                [$endpoint + $status + " AND id < $3 ORDER BY id DESC LIMIT $5"],
                account.uuid(),
                endpoint,
                before,
                pending,
                attempted,
            )
            .fetch_all(db)
            .await?
        };
    }
    let rows = match (endpoint, status) {
        (None, None | Some(DeliveryStatus::Pending)) => page!("account_id = $1 AND $2::uuid IS NULL", ""),
        (None, Some(DeliveryStatus::Succeeded)) => {
            page!("account_id = $1 AND $2::uuid IS NULL", " AND status = 'succeeded'")
        }
        (None, Some(DeliveryStatus::Failed)) => page!("account_id = $1 AND $2::uuid IS NULL", " AND status = 'failed'"),
        (Some(_), None | Some(DeliveryStatus::Pending)) => page!("endpoint_id = $2", ""),
        (Some(_), Some(DeliveryStatus::Succeeded)) => page!("endpoint_id = $2", " AND status = 'succeeded'"),
        (Some(_), Some(DeliveryStatus::Failed)) => page!("endpoint_id = $2", " AND status = 'failed'"),
    };
    Ok(rows)
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
    let original = find(&mut *tx, account, id).await?.ok_or_else(|| Error::no_such("webhook delivery", id))?;
    if original.status == DeliveryStatus::Pending {
        return Err(Error::conflict("the delivery is still pending"));
    }
    lock_enabled(tx, account, original.endpoint_id)
        .await?
        .ok_or_else(|| Error::conflict("the endpoint was deleted"))?;
    events::lock_shared(tx, original.event_id).await?;
    if original.payload.is_none() {
        return Err(Error::conflict("the event is past its retention period"));
    }
    let event = (original.event_id, original.event_type, original.payload);
    insert(tx, account, original.endpoint_id, event, Some(id), now).await
}

/// Locks an endpoint until its new delivery is written, so that a concurrent deletion sees that row. `None` if it was
/// deleted.
pub(super) async fn lock_enabled(
    tx: &mut PgConnection,
    account: AccountId,
    id: WebhookEndpointId,
) -> Result<Option<()>> {
    match endpoints::lock_shared(tx, account, id).await? {
        Some(EndpointStatus::Disabled) => Err(Error::conflict("the endpoint is disabled; enable it first")),
        status => Ok(status.map(|_| ())),
    }
}

/// Writes a delivery that is due now.
pub(super) async fn insert(
    tx: &mut PgConnection,
    account: AccountId,
    endpoint_id: WebhookEndpointId,
    (event_id, event_type, payload): (EventId, Option<String>, Option<String>),
    replay_of: Option<WebhookDeliveryId>,
    now: Timestamp,
) -> Result<Delivery> {
    let mut delivery = Delivery {
        id: WebhookDeliveryId::new(now),
        endpoint_id,
        event_id,
        event_type,
        payload,
        attempt: 1,
        replay_of,
        status: DeliveryStatus::Pending,
        failure: None,
        failure_message: None,
        response_status: None,
        response_body: None,
        duration_ms: None,
        attempted_at: None,
        next_attempt_at: None,
        created_at: now,
    };
    let due_now = sqlx::query_scalar!(
        "INSERT INTO webhook_pending (id, account_id, endpoint_id, event_id, attempt, replay_of, due_at, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp(), $7) RETURNING due_at",
        delivery.id.uuid(),
        account.uuid(),
        delivery.endpoint_id.uuid(),
        delivery.event_id.uuid(),
        delivery.attempt,
        delivery.replay_of.map(WebhookDeliveryId::uuid),
        delivery.created_at,
    )
    .fetch_one(tx)
    .await?;
    delivery.next_attempt_at = Some(due_now);
    Ok(delivery)
}
