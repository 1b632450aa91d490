//! End-to-end tests of merchants, cardholders' browsers and operators, over HTTP against real processes, a real
//! Postgres and a real Redis.
//!
//! Tests without faults share one cluster and use separate accounts; a test that injects faults into processes or servers
//! starts its own cluster. An api takes a tenth of a second of processor time to start; a scheduler takes a fortieth of a
//! processor as long as it runs, so a cluster has only the processes that its test needs.
//! No test asserts durations: each wait polls for its condition and has a generous timeout.

#![allow(clippy::disallowed_methods, reason = "no transaction that a test begins is dropped half-way")]

mod address_limits;
mod addresses;
mod balancers;
mod card_gateway;
mod collection;
mod connections;
mod creations;
mod customers;
mod deliveries;
mod disputes;
mod elements;
mod events;
mod failpoints;
mod faults;
mod filters;
mod fuzz;
mod idempotency;
mod invoices;
mod keys;
mod limits;
mod locks;
mod mails;
mod merchant_data;
mod operators;
mod pages;
mod payment_changes;
mod payment_links;
mod payment_methods;
mod payments;
mod plans;
mod portal;
mod reading_events;
mod recurring_invoices;
mod rolling;
mod rotation;
mod scale;
mod settings;
mod settlements;
mod signing;
mod stripe;
mod subscriptions;
mod support;
mod tenant_isolation;
mod test_clock;
mod tokens;
mod transport;
mod webhooks;
