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
mod testing;
mod view;

pub use endpoints::START_WINDOW;
pub use secrets::{previous_secret_place, secret_place};
pub use status::{DeliveryStatus, DisabledReason, EndpointStatus};
pub use testing::test_endpoint;
pub use view::{DeliveryView, EndpointView};
