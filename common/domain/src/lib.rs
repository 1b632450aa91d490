//! The domain: one module per resource, each with its types, pure rules, SQL, and the view that the API returns.

extern crate self as domain;

pub mod accounts;
pub mod addresses;
pub mod audit;
pub mod charges;
pub mod checkout;
pub mod customers;
pub mod deleted;
pub mod disputes;
pub mod events;
pub mod figures;
pub mod idempotency;
pub mod invoices;
pub mod mails;
mod merchant_data;
pub mod modifiers;
mod mutants;
pub mod nonces;
pub mod operations;
pub mod payment_links;
pub mod payment_methods;
pub mod payments;
pub mod plans;
pub mod recurring_invoices;
pub mod requests;
pub mod settlements;
pub mod subscriptions;
pub mod test_clocks;
pub mod users;
pub mod webhooks;
