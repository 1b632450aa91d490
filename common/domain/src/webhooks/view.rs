//! The JSON of endpoints and deliveries in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::ArrayBuilder;

use super::deliveries::Delivery;
use super::dispatch::attempt::Failure;
use super::endpoints::{Endpoint, WithSecret};
use super::status::{DeliveryStatus, DisabledReason, EndpointStatus};
use crate::events::EventType;
use foundation::id::{EventId, WebhookDeliveryId, WebhookEndpointId};
use foundation::merchant_data::Metadata;
use foundation::schema;
use foundation::time::Timestamp;

/// The JSON of an endpoint.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookEndpoint, description = "A URL at which you receive events.")]
pub struct EndpointView<'a> {
    pub id: WebhookEndpointId,
    #[schema(schema_with = schema::webhook_endpoint)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    #[schema(schema_with = schema::version)]
    version: i64,
    /// Deliveries are posted here.
    url: &'a str,
    /// The types of the events that the endpoint receives. An empty list means all events.
    #[schema(value_type = EnabledEvents)]
    enabled_events: &'a [String],
    status: EndpointStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_reason: Option<DisabledReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Signs deliveries. Returned only when it is generated: by creation and by rotation.
    #[schema(value_type = Option<EndpointSecret>)]
    secret: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

schema::field_types! {
    EnabledEvents = ArrayBuilder::new().items(schema::enumeration(EventType::subscribable().map(EventType::name))).build();
    EndpointSecret = schema::text("^whsec_[0-9A-Za-z+/]{43}=$", "whsec_q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=");
    Attempts = schema::integer(1, i64::from(i16::MAX));
}
schema::schema_is!(
    Failure,
    schema::enumeration(Self::ALL.into_iter().filter(|one| one.visible_to_merchant() == *one).map(Self::name))
);

impl<'a> EndpointView<'a> {
    pub fn new(endpoint: &'a Endpoint, livemode: bool) -> Self {
        Self {
            id: endpoint.id,
            object: "webhook_endpoint",
            livemode,
            created_at: endpoint.created_at,
            version: endpoint.version,
            url: &endpoint.url,
            enabled_events: &endpoint.enabled_events,
            status: endpoint.status,
            disabled_reason: endpoint.disabled_reason,
            secret: None,
            metadata: endpoint.metadata.as_ref(),
        }
    }

    /// An endpoint with its newly generated secret.
    pub fn with_secret(new: &'a WithSecret, livemode: bool) -> Self {
        Self { secret: Some(new.secret.expose()), ..Self::new(&new.endpoint, livemode) }
    }
}

/// The JSON of a delivery.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookDelivery, description = "One attempt to deliver an event to an endpoint, past or pending.")]
pub struct DeliveryView<'a> {
    pub id: WebhookDeliveryId,
    #[schema(schema_with = schema::webhook_delivery)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// The event. Every delivery of it sends this as `webhook-id`.
    event_id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The type of the event. Absent once the event's retention period has ended.
    #[schema(value_type = Option<EventType>)]
    event_type: Option<&'a str>,
    /// The endpoint, which may be deleted.
    endpoint_id: WebhookEndpointId,
    /// The number of the attempt, starting at 1.
    #[schema(value_type = Attempts)]
    attempt: i16,
    status: DeliveryStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The HTTP status of the response.
    response_status: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The first 4 KiB of the response body.
    response_body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// How long the attempt took, in milliseconds.
    duration_ms: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the attempt began.
    attempted_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When a pending delivery is due, or when a failed one is retried.
    next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Why the attempt failed:
    /// - `status`: the response was not 2xx.
    /// - `timeout`: no complete response within 15 s.
    /// - `dns`: the host name has no address, or no public one.
    /// - `address_refused`: the URL is no longer allowed.
    /// - `connect`: no connection, or it broke.
    /// - `tls`: the handshake failed, or the certificate is not valid.
    /// - `protocol`: the response is not HTTP/1.1.
    /// - `endpoint_disabled`, `endpoint_deleted`: not sent.
    /// - `event_expired`: not sent, because the event's retention period had ended.
    #[schema(value_type = Option<Failure>)]
    failure_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Why there was no response, as a sentence.
    failure_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The delivery that this replay repeats.
    replay_of: Option<WebhookDeliveryId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The exact body that is sent.
    payload: Option<&'a str>,
}

impl<'a> DeliveryView<'a> {
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
