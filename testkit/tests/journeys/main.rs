//! What a merchant, a cardholder's browser and an operator live through, told over HTTP against real processes, a real
//! Postgres and a real Redis.
//!
//! Tests without faults share one cluster and have an account each; a test that breaks something has a cluster of its own.
//! No test asserts how long a thing takes: waits end when what is waited for is there, and only give up late.

#![allow(clippy::disallowed_methods, reason = "no transaction that a test begins is dropped half-way")]

mod addresses;
mod balancers;
mod card_gateway;
mod changes;
mod collection;
mod connections;
mod creations;
mod customers;
mod deliveries;
mod elements;
mod events;
mod failpoints;
mod faults;
mod fuzz;
mod idempotency;
mod invoices;
mod keys;
mod limits;
mod locks;
mod operators;
mod pages;
mod payment_links;
mod payment_methods;
mod payments;
mod plans;
mod recurring_invoices;
mod rolling;
mod rotation;
mod scale;
mod settings;
mod signing;
mod subscriptions;
mod support;
mod test_clock;
mod tokens;
mod transport;
mod visitors;
mod walls;
mod webhooks;
