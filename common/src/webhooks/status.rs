//! Where an endpoint and a delivery stand.

use serde::Serialize;

/// Whether an endpoint is told of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "webhook_endpoint_status", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum EndpointStatus {
    /// It is.
    Enabled,
    /// It is not, until it is enabled again.
    Disabled,
}

/// What became of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "webhook_delivery_status", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// It is still to be made, or under way.
    Pending,
    /// The endpoint answered 2xx in time.
    Succeeded,
    /// It did not.
    Failed,
}
