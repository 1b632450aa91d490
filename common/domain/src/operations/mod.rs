//! Operations: one row per request to a provider that can move money or save a card (docs/charge-protocol.md, Operations).
//! This module defines and reads operations; only [`crate::charges`] writes them.

pub mod admin;
pub mod books;
mod result;
mod types;
mod unfinished;

pub use providers::{OperationKind, PROVIDER_TIMEOUT};

pub use result::{failure_code, state, store_card_failure};
pub use types::{FIRST_PUSH_AFTER, LEASE, Origin, REQUEST_LIFETIME, STOPPED_AFTER, State, Subject};
pub use unfinished::{Backlog, Unfinished, backlog, count_background, unfinished};
