//! Webhooks: a merchant's endpoints, what is to be sent to them, and every attempt that was made.

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

/// How long after its claim an attempt begins at the latest. A worker that was held up for longer gives the row back
/// unsent: whoever deletes an endpoint waits so long for attempts that were claimed before.
pub const START_WINDOW: Duration = Duration::from_secs(2);
