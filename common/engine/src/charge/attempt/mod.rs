//! An attempt: the claim, the request to the provider or the recovery of an earlier one, and what is recorded.

pub mod executor;
pub mod perform;
mod recover;
mod send;
