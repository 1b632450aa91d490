//! The domain of Unified Payments: all rules and all SQL, in groups from the lowest layer to the highest. A module may
//! use its own group and those before it; testkit/tests/tidy.rs checks that (see docs/architecture.md, Layout).

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

// Flows across slices.
pub mod flows;
