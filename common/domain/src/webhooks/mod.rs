//! Webhooks: a merchant's endpoints, pending deliveries, and the record of every attempt.

pub mod admin;
pub mod deliveries;
pub mod dispatch;
pub mod endpoints;
pub mod replays;
mod schedule;
mod secrets;
pub mod signature;
mod status;
mod store;
mod view;

use std::time::Duration;

pub use status::{DeliveryStatus, DisabledReason, EndpointStatus};
pub use view::{DeletedEndpointView, DeliveryView, EndpointView};

/// An attempt begins within this time of its claim, or the worker releases the delivery unsent. The deletion of an
/// endpoint waits this long for attempts that were claimed before it.
pub const START_WINDOW: Duration = Duration::from_secs(2);
