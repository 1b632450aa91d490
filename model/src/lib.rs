//! The charge protocol as a model, so that every order of events is tried and not only those that a test thinks of
//! (docs/reliability.md, The model). A tool of development: nothing of it is shipped.
//!
//! Two models share the row of `operations` ([`row`]): a charge from its intent to its outcome ([`charge`]), and refunds at a
//! provider that gives them no reference ([`refund`]). Each can be given a [`charge::Flaw`] or [`refund::Flaw`]: a rule of the
//! protocol left out, which must then be missed.

pub mod charge;
pub mod check;
pub mod ends;
pub mod refund;
pub mod row;
pub mod suite;
