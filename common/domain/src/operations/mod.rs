//! Operations: one row per request to a provider that can move money, with its lease, fencing token and state.
//!
//! `ready → claimed → sending → succeeded | declined | failed | unknown` (docs/architecture.md, "The way a charge goes").
//! Leases use the database's `clock_timestamp()`: `now()` does not advance while a transaction waits for a lock, and
//! the clocks of processes differ.

pub mod admin;
pub mod books;
mod breaker;
mod claim;
mod insert;
mod outcome;
mod refunds;
mod result;
mod sweep;
mod types;
mod unfinished;

pub use providers::{OperationKind, PROVIDER_TIMEOUT};

pub use breaker::{Breaker, Reference, WhenNotProcessed, admit, breakers, close_breaker, count_not_processed, requeue};
pub use claim::{Claimed, Claims, payer, read, return_url, sending_again};
pub use insert::{NewOperation, insert};
pub use outcome::{Locked, Outcome, Retry, finish, leave_unknown, lock, lock_charge};
pub use refunds::{another_refund_is_unknown, next_refund};
pub use result::{failure_code, state, store_card_failure};
pub use sweep::{Due, OVERDUE, SWEEP_BATCH, push_soon, take_due, take_overdue};
pub use types::{FIRST_PUSH_AFTER, LEASE, Origin, REQUEST_LIFETIME, STOPPED_AFTER, State, Subject};
pub use unfinished::{Backlog, Unfinished, backlog, count_background, unfinished};
