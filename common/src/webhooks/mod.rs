//! Webhooks: a merchant's endpoints, what is to be sent to them, and every attempt that was made.

mod status;

pub use status::{DeliveryStatus, EndpointStatus};
