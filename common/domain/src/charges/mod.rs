//! Charges and what follows them: the one writer of operations, and of payments at the beginning and end of a charge.
//!
//! `ready → sending → succeeded | declined | failed | unknown` (docs/charge-protocol.md, Operations). Leases use the
//! database's `clock_timestamp()`: `now()` does not advance while a transaction waits for a lock, and the clocks of
//! processes differ.

mod batches;
mod breaker;
mod claim;
mod finish;
mod insert;
mod outcomes;
mod refunds;
mod sweep;

pub use batches::Batches;
pub use breaker::{Breaker, Reference, WhenNotProcessed, admit, breakers, close_breaker, count_not_processed, requeue};
pub use claim::{Claimed, payer, read, return_url, sending_again};
pub use finish::{Locked, Retry, finish, leave_unknown, lock, lock_charge};
pub use insert::{CardToSave, FirstStep, Intent, NewOperation, insert, insert_intents};
pub use outcomes::{EndedCharge, Written, event_of, finish_charges};
pub use refunds::{another_refund_is_unknown, next_refund};
pub use sweep::{Due, OVERDUE, SWEEP_BATCH, hold, push_soon, require_manual_review, take_due};
