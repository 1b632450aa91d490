//! A model of the charge protocol, checked in every order of events and not only in those that tests think of
//! (docs/reliability.md, The model). A development tool that is not shipped.
//!
//! Two models share the row of `operations` ([`row`]): a charge from its intent to its outcome ([`charge`]), and
//! refunds with and without a reference at the provider ([`refund`]). Each accepts a [`charge::Flaw`] or
//! [`refund::Flaw`], which omits a rule of the protocol; the check must then find a violation.

pub mod charge;
pub mod check;
pub mod liveness;
pub mod refund;
pub mod row;
pub mod suite;
