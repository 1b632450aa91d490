//! When: days and the zones in which they begin, terms of payment, cycles of subscriptions, cadences of recurring invoices.
//!
//! Pure rules. A date of a cycle is always counted from its anchor and never from the date before it, so that a month which
//! is too short shortens no later one; and whichever cycle is asked for, the others are not walked through.
//! See docs/architecture-billing.md, "Calendar".

mod cadence;
mod cycles;
mod date;
mod terms;
#[cfg(test)]
mod tests;
mod zone;

pub use cadence::{Cadence, MAX_INTERVAL, Schedule};
pub use cycles::{Cycles, Period, Unit};
pub use date::{Date, NotADate};
pub use terms::PaymentTerms;
pub use zone::{TimeZone, UnknownTimeZone};
