//! The domain of Unified Payments: every rule and every statement of SQL, in groups by rank, lowest first. A module uses its
//! own group and those listed before it; testkit/tests/tidy.rs fails on a path that leads the other way (see
//! docs/architecture.md, Layout).

// Foundation.
pub mod actor;
pub mod calendar;
pub mod card_number;
pub mod clock;
pub mod config;
pub mod console;
pub mod country;
pub mod crypto;
pub mod db;
pub mod email;
pub mod error;
pub mod id;
pub mod modifiers;
pub mod money;
pub mod network;
pub mod page;
pub mod proof;
pub mod public_url;
pub mod rate_limits;
pub mod schema;
pub mod server;
pub mod telemetry;
pub mod time;

// Mechanisms.
pub mod accounts;
pub mod audit;
pub mod capabilities;
pub mod egress;
pub mod events;
pub mod idempotency;
pub mod nonces;
pub mod operations;
pub mod providers;
pub mod queues;

// Slices, one per resource.
pub mod addresses;
pub mod checkout;
pub mod customers;
pub mod invoices;
pub mod payment_links;
pub mod payment_methods;
pub mod payments;
pub mod plans;
pub mod recurring_invoices;
pub mod subscriptions;
pub mod test_clocks;
pub mod webhooks;

// Stories across slices.
pub mod flows;
