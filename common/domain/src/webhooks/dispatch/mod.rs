//! Delivery attempts: claiming due deliveries, and recording the results.

pub(super) mod attempt;
mod backlog;
mod claim;
mod record;
mod signing;

pub use attempt::{ATTEMPT_TIMEOUT, Attempted, Failure};
pub use backlog::{Backlog, CLOSING_BATCH, COUNT_LIMIT, backlog, close_expired, close_undeliverable, endpoints_due};
pub use claim::{Claimed, LEASE, claim, release};
pub use record::{DISABLED_AFTER, MAX_FAILURE_GAP, record};
pub use signing::{clear_signing_failure, hold_unsigned};
