//! Which deliveries an operator replays: one for each event that an endpoint was to hear of within some time.

use std::collections::{BTreeMap, HashSet};

use sqlx::PgPool;
use uuid::Uuid;

use super::DeliveryStatus;
use super::store::{endpoints, replays as store};
use crate::error::{Error, Result};
use crate::events::EventType;
use crate::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use crate::time::Timestamp;

/// Events within the time; for more, it is to be cut in two.
const EVENTS: usize = 200_000;
/// Deliveries that one statement reads.
const PAGE: i64 = 5_000;

/// Which are wanted.
#[derive(Debug)]
pub struct Wanted {
    /// Of events that happened then, or later.
    pub since: Timestamp,
    /// And before this.
    pub until: Option<Timestamp>,
    /// Of these types; empty is all.
    pub events: Vec<EventType>,
    /// Those alone that the endpoint has never taken, and that nobody is trying to deliver any more.
    pub failed_only: bool,
    /// Those alone that come after this one, where an earlier run has ended.
    pub after: Option<WebhookDeliveryId>,
}

/// A delivery as it is looked at.
pub(super) struct Row {
    pub(super) id: WebhookDeliveryId,
    pub(super) event_id: EventId,
    pub(super) event_type: Option<String>,
    pub(super) status: DeliveryStatus,
    pub(super) is_first: bool,
}

/// What has become of an event that was first to be delivered within the time.
struct Story {
    first: WebhookDeliveryId,
    kind: String,
    taken: bool,
}

/// The first delivery of each event that is wanted, oldest first, and whose endpoint it is. Events that are no longer kept are
/// left out.
///
/// # Errors
/// [`Error::NotFound`] for an endpoint that is not there; [`Error::Invalid`] if that time has more than can be looked at.
pub async fn replayable(
    db: &PgPool,
    endpoint: WebhookEndpointId,
    wanted: &Wanted,
) -> Result<(AccountId, Vec<WebhookDeliveryId>)> {
    let account = endpoints::owner(db, endpoint).await?.ok_or_else(|| Error::no_such("webhook endpoint", endpoint))?;
    // First what is to come: what is made meanwhile is seen at least once.
    let pending = if wanted.failed_only { pending(db, endpoint, wanted.since).await? } else { HashSet::new() };
    let stories = stories(db, account, endpoint, wanted).await?;
    let names: Vec<_> = wanted.events.iter().map(|event| event.name()).collect();
    let mut found: Vec<_> = stories
        .into_iter()
        .filter(|(event, story)| !(wanted.failed_only && (story.taken || pending.contains(event))))
        .filter(|(_, story)| names.is_empty() || names.contains(&story.kind.as_str()))
        .map(|(_, story)| story.first)
        .filter(|id| wanted.after.is_none_or(|after| *id > after))
        .collect();
    found.sort();
    Ok((account, found))
}

async fn pending(db: &PgPool, endpoint: WebhookEndpointId, since: Timestamp) -> Result<HashSet<EventId>> {
    let (mut events, mut from) = (HashSet::new(), floor(since));
    loop {
        let page = store::pending(db, endpoint, from, PAGE).await?;
        events.extend(page.iter().map(|(_, event)| *event));
        match page.last() {
            Some((last, _)) if is_full(page.len()) => from = next(*last),
            _ => return Ok(events),
        }
    }
}

/// Whether an endpoint has ever taken an event is known by all that was sent since, replays of this day included. Otherwise
/// what came after the time is of no matter.
async fn stories(
    db: &PgPool,
    account: AccountId,
    endpoint: WebhookEndpointId,
    wanted: &Wanted,
) -> Result<BTreeMap<EventId, Story>> {
    let until = wanted.until.map_or(Uuid::max(), floor);
    let before = if wanted.failed_only { Uuid::max() } else { until };
    let (mut stories, mut from) = (BTreeMap::<EventId, Story>::new(), floor(wanted.since));
    loop {
        let page = store::made(db, account, endpoint, (from, before), PAGE).await?;
        let last = page.last().map(|row| row.id).filter(|_| is_full(page.len()));
        for row in page {
            let taken = row.status == DeliveryStatus::Succeeded;
            if let Some(story) = stories.get_mut(&row.event_id) {
                story.taken |= taken;
            } else if let Some(kind) = row.event_type
                && row.is_first
                && row.id.uuid() < until
            {
                stories.insert(row.event_id, Story { first: row.id, kind, taken });
            }
        }
        if stories.len() > EVENTS {
            let message = format!("there are more than {EVENTS} events since then; name a shorter time, with --until");
            return Err(Error::invalid("until", message));
        }
        match last {
            Some(last) => from = next(last),
            None => return Ok(stories),
        }
    }
}

fn is_full(len: usize) -> bool {
    i64::try_from(len).is_ok_and(|len| len >= PAGE)
}

/// The smallest id of an instant.
fn floor(at: Timestamp) -> Uuid {
    Uuid::from_u128(WebhookDeliveryId::new(at).uuid().as_u128() >> 80 << 80)
}

fn next(id: WebhookDeliveryId) -> Uuid {
    Uuid::from_u128(id.uuid().as_u128().saturating_add(1))
}
