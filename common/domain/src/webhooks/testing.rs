//! Tests of endpoints, which merchants ask for.

use super::deliveries::{self, Delivery};
use super::endpoints;
use super::view::EndpointView;
use crate::events::{self, EventType};
use foundation::db::Db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, WebhookEndpointId};
use foundation::queues;
use foundation::time::Timestamp;

/// Sends an event to an endpoint to test it, whatever events it has enabled: due at once and tried once.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if the endpoint is disabled.
pub async fn test_endpoint(
    db: &Db,
    account: AccountId,
    livemode: bool,
    endpoint: WebhookEndpointId,
    now: Timestamp,
) -> Result<Delivery> {
    let mut tx = db.begin().await?;
    deliveries::lock_enabled(&mut tx, account, endpoint)
        .await?
        .ok_or_else(|| Error::no_such("webhook endpoint", endpoint))?;
    let object = endpoints::find(&mut *tx, account, endpoint).await?;
    let object = object.ok_or_else(|| Error::no_such("webhook endpoint", endpoint))?;
    let kind = EventType::WebhookEndpointTest;
    let event = events::insert(&mut tx, account, livemode, kind, &EndpointView::new(&object, livemode), now).await?;
    let event = (event.id, Some(kind.name().to_owned()), Some(event.payload));
    let delivery = deliveries::insert(&mut tx, account, endpoint, event, None, now).await?;
    tx.wake(queues::WEBHOOKS, endpoint.uuid());
    tx.commit().await?;
    Ok(delivery)
}
