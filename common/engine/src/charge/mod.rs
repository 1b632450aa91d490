//! One charge: the intent, the claim, the request to the provider, its outcome, and what follows a stale one.

pub mod challenge;
pub mod counters;
pub mod executor;
pub mod finish;
pub mod intents;
pub mod invoice_payment;
pub mod link_payment;
pub mod outcome;
pub mod perform;
pub mod renewal_card;
pub mod reversal;
pub mod save_card;
pub mod stale;
pub mod take_payment;
pub mod unsent;
