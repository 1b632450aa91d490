//! Charges, and what follows them: the intent, the attempts (claim, request, recovery), and the outcome.

pub mod attempt;
pub mod challenge;
pub mod counters;
pub mod intent;
pub mod outcome;
pub mod renewal_card;
pub mod reversal;
