//! Read-only queries for operators: what is delayed, and how much of the limits is used.

mod store;

pub use store::{LimitUsage, Receipts, Unfinished, limits, receipts, unfinished};
