//! Endpoints and deliveries as the API answers them and as events carry them.

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::ArrayBuilder;

use super::deliveries::Delivery;
use super::dispatch::Failure;
use super::endpoints::{Endpoint, WithSecret};
use super::{DeliveryStatus, DisabledReason, EndpointStatus};
use crate::events::EventType;
use crate::id::{EventId, WebhookDeliveryId, WebhookEndpointId};
use crate::schema;
use crate::time::Timestamp;

/// The public JSON of an endpoint.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookEndpoint, description = "Where you hear of events.")]
pub struct EndpointView<'a> {
    /// Its id.
    pub id: WebhookEndpointId,
    #[schema(schema_with = schema::webhook_endpoint)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// Where deliveries go.
    url: &'a str,
    /// The events that it is told of; an empty list is every event.
    #[schema(schema_with = event_types)]
    enabled_events: &'a [String],
    /// Whether it is told at all.
    status: EndpointStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of a disabled one: `merchant` (an update said so), `gone` (it answered 410) or `failing` (for five days).
    disabled_reason: Option<DisabledReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// What deliveries are signed with: in the answers that make it, and never again.
    #[schema(schema_with = secret)]
    secret: Option<&'a str>,
}

fn event_types() -> schema::Field {
    ArrayBuilder::new().items(schema::word(EventType::ALL.iter().map(|event| event.name()))).into()
}

fn secret() -> schema::Field {
    schema::text("^whsec_[0-9A-Za-z+/]{43}=$", "whsec_q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=").into()
}

impl<'a> EndpointView<'a> {
    /// Renders an endpoint.
    pub fn new(endpoint: &'a Endpoint, livemode: bool) -> Self {
        Self {
            id: endpoint.id,
            object: "webhook_endpoint",
            livemode,
            created_at: endpoint.created_at,
            url: &endpoint.url,
            enabled_events: &endpoint.enabled_events,
            status: endpoint.status,
            disabled_reason: endpoint.disabled_reason,
            secret: None,
        }
    }

    /// Renders an endpoint with the secret that was just made for it.
    pub fn with_secret(made: &'a WithSecret, livemode: bool) -> Self {
        Self { secret: Some(made.secret.expose()), ..Self::new(&made.endpoint, livemode) }
    }
}

/// What is answered when an endpoint is deleted.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeletedWebhookEndpoint, description = "An endpoint that is no more.")]
pub struct DeletedEndpointView {
    id: WebhookEndpointId,
    #[schema(schema_with = schema::webhook_endpoint)]
    object: &'static str,
    /// Always `true`.
    deleted: bool,
}

impl DeletedEndpointView {
    /// Says of an endpoint that it is deleted.
    pub fn new(id: WebhookEndpointId) -> Self {
        Self { id, object: "webhook_endpoint", deleted: true }
    }
}

/// The public JSON of a delivery.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookDelivery, description = "One attempt to tell an endpoint of an event, made or still to be made.")]
pub struct DeliveryView<'a> {
    /// Its id.
    pub id: WebhookDeliveryId,
    #[schema(schema_with = schema::webhook_delivery)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// The event; every delivery of it sends this as `webhook-id`.
    event_id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = event_type)]
    event_type: Option<&'a str>,
    endpoint_id: WebhookEndpointId,
    /// From 1 on.
    #[schema(schema_with = attempts)]
    attempt: i16,
    /// What became of it.
    status: DeliveryStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The status that was answered.
    response_status: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The first 4 KiB that were answered.
    response_body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// How long the attempt took.
    duration_ms: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the attempt began.
    attempted_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When a pending one is due; when a failed one is tried again, if it is.
    next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of a failed one: why, in a word.
    #[schema(schema_with = failure)]
    failure_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of one that got no answer: what went wrong, in a sentence.
    failure_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The delivery that this one repeats.
    replay_of: Option<WebhookDeliveryId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The body exactly as it is sent.
    payload: Option<&'a str>,
}

fn event_type() -> schema::Field {
    schema::word(EventType::ALL.iter().map(|event| event.name())).into()
}

fn failure() -> schema::Field {
    schema::word(Failure::ALL.map(Failure::name)).into()
}

fn attempts() -> schema::Field {
    schema::whole(1, i64::from(i16::MAX)).into()
}

impl<'a> DeliveryView<'a> {
    /// Renders a delivery.
    pub fn new(delivery: &'a Delivery, livemode: bool) -> Self {
        Self {
            id: delivery.id,
            object: "webhook_delivery",
            livemode,
            created_at: delivery.created_at,
            event_id: delivery.event_id,
            event_type: delivery.event_type.as_deref(),
            endpoint_id: delivery.endpoint_id,
            attempt: delivery.attempt,
            status: delivery.status,
            response_status: delivery.response_status,
            response_body: delivery.response_body.as_deref(),
            duration_ms: delivery.duration_ms,
            attempted_at: delivery.attempted_at,
            next_attempt_at: delivery.next_attempt_at,
            failure_reason: delivery.failure.as_deref(),
            failure_message: delivery.failure_message.as_deref(),
            replay_of: delivery.replay_of,
            payload: delivery.payload.as_deref(),
        }
    }
}
