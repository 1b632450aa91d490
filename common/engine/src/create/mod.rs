//! The creation of each object, with its idempotency key, in one transaction.

pub mod address;
pub mod customer;
pub mod default_address;
pub mod invoice;
pub mod payment_link;
pub mod plan;
pub mod quota;
pub mod recurring_invoice;
pub mod subscription;
pub mod webhook_endpoint;
