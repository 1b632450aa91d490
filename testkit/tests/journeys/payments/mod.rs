//! Payments: create, retrieve, list, and every kind of rejected request.

mod envelope;
mod fields;
mod headers;
mod lists;
mod outcomes;
mod request_metrics;
mod round_trips;
mod slow;
