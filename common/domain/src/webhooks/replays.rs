//! Selects the deliveries that an operator replays: one for each event that was due to an endpoint in a time range.

use std::collections::{BTreeMap, HashSet};

use sqlx::PgPool;
use uuid::Uuid;

use super::status::DeliveryStatus;
use crate::events::EventType;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use foundation::time::Timestamp;

/// Events in one time range at most; a longer range must be split.
const MAX_EVENTS: usize = 200_000;
/// Deliveries read by one statement.
const PAGE: i64 = 5_000;

/// Which deliveries to replay.
#[derive(Debug)]
pub struct ReplayFilter {
    /// Events that happened at this time or later.
    pub since: Timestamp,
    /// Events that happened before this time.
    pub until: Option<Timestamp>,
    /// Events of these types; empty means all.
    pub events: Vec<EventType>,
    /// Only events that the endpoint has never accepted and that have no pending delivery.
    pub failed_only: bool,
    /// Only deliveries after this one, at which an earlier run stopped.
    pub after: Option<WebhookDeliveryId>,
}

/// A past delivery.
struct Row {
    id: WebhookDeliveryId,
    event_id: EventId,
    event_type: Option<String>,
    status: DeliveryStatus,
    is_first: bool,
}

/// The deliveries of an event whose first one lies in the time range.
struct EventDeliveries {
    first: WebhookDeliveryId,
    kind: String,
    succeeded: bool,
}

/// The first delivery of each matching event, oldest first, with the endpoint's account. Events past the retention
/// period are left out.
///
/// # Errors
/// [`Error::NotFound`] for an unknown endpoint; [`Error::Invalid`] if the time range has too many events.
pub async fn replayable(
    db: &PgPool,
    endpoint: WebhookEndpointId,
    filter: &ReplayFilter,
) -> Result<(AccountId, Vec<WebhookDeliveryId>)> {
    let owner = sqlx::query_scalar!(
        "SELECT account_id FROM webhook_endpoints WHERE id = $1 AND deleted_at IS NULL",
        endpoint.uuid()
    )
    .fetch_optional(db)
    .await?;
    let account = owner.ok_or_else(|| Error::no_such("webhook endpoint", endpoint))?;
    // Pending deliveries are read first: one that is attempted in between then shows up in at least one of the two
    // queries.
    let pending = if filter.failed_only { pending(db, endpoint, filter.since).await? } else { HashSet::new() };
    let events = events(db, account, endpoint, filter).await?;
    let names: Vec<_> = filter.events.iter().map(|event| event.name()).collect();
    let mut selected: Vec<_> = events
        .into_iter()
        .filter(|(id, event)| !(filter.failed_only && (event.succeeded || pending.contains(id))))
        .filter(|(_, event)| names.is_empty() || names.contains(&event.kind.as_str()))
        .map(|(_, event)| event.first)
        .filter(|id| filter.after.is_none_or(|after| *id > after))
        .collect();
    selected.sort();
    Ok((account, selected))
}

async fn pending(db: &PgPool, endpoint: WebhookEndpointId, since: Timestamp) -> Result<HashSet<EventId>> {
    let (mut events, mut from) = (HashSet::new(), floor(since));
    loop {
        let rows = sqlx::query!(
            r#"SELECT id AS "id: WebhookDeliveryId", event_id AS "event_id: EventId" FROM webhook_pending
           WHERE endpoint_id = $1 AND id >= $2 ORDER BY endpoint_id, id LIMIT $3"#,
            endpoint.uuid(),
            from,
            PAGE,
        );
        let page = rows.fetch_all(db).await?;
        events.extend(page.iter().map(|row| row.event_id));
        match page.last() {
            Some(last) if is_full(page.len()) => from = next(last.id),
            _ => return Ok(events),
        }
    }
}

/// Collects the events of the time range. `failed_only` reads all later deliveries too, because a replay after the
/// range may have succeeded.
async fn events(
    db: &PgPool,
    account: AccountId,
    endpoint: WebhookEndpointId,
    filter: &ReplayFilter,
) -> Result<BTreeMap<EventId, EventDeliveries>> {
    let until = filter.until.map_or(Uuid::max(), floor);
    let before = if filter.failed_only { Uuid::max() } else { until };
    let (mut events, mut from) = (BTreeMap::<EventId, EventDeliveries>::new(), floor(filter.since));
    loop {
        let rows = sqlx::query_as!(
            Row,
            r#"SELECT d.id AS "id!: WebhookDeliveryId", d.event_id AS "event_id!: EventId", e.type AS "event_type?",
                  d.status AS "status!: DeliveryStatus", d.attempt = 1 AND d.replay_of IS NULL AS "is_first!"
           FROM (SELECT id, event_id, attempt, replay_of, status FROM webhook_deliveries
                 WHERE endpoint_id = $2 AND id >= $3 AND id < $4 ORDER BY endpoint_id, id LIMIT $5) d
           LEFT JOIN LATERAL (SELECT type FROM events WHERE id = d.event_id AND account_id = $1
                              AND d.attempt = 1 AND d.replay_of IS NULL LIMIT 1) e ON true"#,
            account.uuid(),
            endpoint.uuid(),
            from,
            before,
            PAGE,
        );
        let mut page = rows.fetch_all(db).await?;
        page.sort_by_key(|row| row.id);
        let last = page.last().map(|row| row.id).filter(|_| is_full(page.len()));
        for row in page {
            let succeeded = row.status == DeliveryStatus::Succeeded;
            if let Some(event) = events.get_mut(&row.event_id) {
                event.succeeded |= succeeded;
            } else if let Some(kind) = row.event_type
                && row.is_first
                && row.id.uuid() < until
            {
                events.insert(row.event_id, EventDeliveries { first: row.id, kind, succeeded });
            }
        }
        if events.len() > MAX_EVENTS {
            let message = format!("the time range has more than {MAX_EVENTS} events; shorten it with --until");
            return Err(Error::invalid("until", message));
        }
        match last {
            Some(last) => from = next(last),
            None => return Ok(events),
        }
    }
}

fn is_full(len: usize) -> bool {
    i64::try_from(len).is_ok_and(|len| len >= PAGE)
}

/// The smallest delivery id of an instant.
fn floor(at: Timestamp) -> Uuid {
    Uuid::from_u128(WebhookDeliveryId::new(at).uuid().as_u128() >> 80 << 80)
}

fn next(id: WebhookDeliveryId) -> Uuid {
    Uuid::from_u128(id.uuid().as_u128().saturating_add(1))
}
