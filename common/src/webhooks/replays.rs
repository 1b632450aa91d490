//! Which deliveries an operator replays: one for each event that an endpoint was to hear of within some time.

use std::collections::BTreeMap;

use sqlx::PgPool;

use super::DeliveryStatus;
use super::store::{endpoints, replays as store};
use crate::error::{Error, Result};
use crate::events::EventType;
use crate::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use crate::time::Timestamp;

/// Deliveries that are looked at; for more, the time is to be cut in two.
const LOOKED_AT: i64 = 200_000;

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

#[derive(Default)]
struct Story {
    first: Option<WebhookDeliveryId>,
    kind: Option<String>,
    taken: bool,
    pending: bool,
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
    let account = endpoints::owner(db, endpoint).await?.ok_or(Error::NotFound("webhook endpoint"))?;
    let rows = store::since(db, account, endpoint, wanted.since, LOOKED_AT).await?;
    if i64::try_from(rows.len()).is_ok_and(|count| count >= LOOKED_AT) {
        let message = format!("since {} there are {LOOKED_AT} deliveries or more; begin later", wanted.since);
        return Err(Error::invalid("since", message));
    }
    let mut stories: BTreeMap<EventId, Story> = BTreeMap::new();
    for row in rows {
        let story = stories.entry(row.event_id).or_default();
        match row.status {
            DeliveryStatus::Pending => story.pending = true,
            DeliveryStatus::Succeeded => story.taken = true,
            DeliveryStatus::Failed => {}
        }
        if row.is_first && row.status != DeliveryStatus::Pending {
            story.first = Some(row.id);
        }
        story.kind = story.kind.take().or(row.event_type);
    }
    let names: Vec<_> = wanted.events.iter().map(|event| event.name()).collect();
    let until = wanted.until.map(|until| WebhookDeliveryId::new(until).uuid().as_u128() >> 80);
    let mut found: Vec<_> = stories
        .into_values()
        .filter(|story| !(wanted.failed_only && (story.taken || story.pending)))
        .filter_map(|story| {
            story.kind.filter(|kind| names.is_empty() || names.contains(&kind.as_str())).and(story.first)
        })
        .filter(|id| until.is_none_or(|until| id.uuid().as_u128() >> 80 < until))
        .filter(|id| wanted.after.is_none_or(|after| *id > after))
        .collect();
    found.sort();
    Ok((account, found))
}
