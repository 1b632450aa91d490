//! For whom what is due is done.

use crate::id::AccountId;
use crate::time::Timestamp;

/// For whom, and what time it is there.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    /// Everyone whose clock is not being advanced, at the real time.
    Everyone(Timestamp),
    /// One account, at its own time.
    Account(AccountId, Timestamp),
}
