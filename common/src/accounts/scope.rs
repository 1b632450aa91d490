//! Whose due work is looked for.

use crate::id::AccountId;
use crate::time::Timestamp;

/// Whose due work is looked for, and by which time.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    /// Everyone whose clock is not being advanced, at the real time.
    Everyone(Timestamp),
    /// One account, at its own time.
    Account(AccountId, Timestamp),
}
