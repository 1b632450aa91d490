//! The domain of Unified Payments: every rule and every statement of SQL, in rank order. A module uses those above it alone;
//! a test reads the `use crate::` lines and fails on an upward one (docs/architecture.md, Layout).

// Foundation.
pub mod clock;
pub mod config;
pub mod crypto;
pub mod db;
pub mod error;
pub mod id;
pub mod money;
pub mod page;
pub mod telemetry;
pub mod time;

// Mechanisms.
pub mod accounts;
pub mod capabilities;
pub mod events;
pub mod nonces;
pub mod operations;
pub mod providers;
pub mod queues;

// Slices, one per resource.
pub mod checkout;
pub mod customers;
pub mod payment_methods;
pub mod payments;

// Stories across slices.
pub mod flows;
