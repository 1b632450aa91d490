//! Dates, time zones, payment terms, billing cycles of subscriptions and cadences of recurring invoices.
//!
//! Pure rules. Every date of a cycle is computed from the anchor, never from the previous date, so that a short month
//! does not shift later dates. Any cycle is computed directly, without iterating over the cycles before it. See
//! docs/architecture-billing.md, "Calendar".

mod cadence;
mod cycles;
mod date;
mod terms;
#[cfg(test)]
mod tests;
mod zone;

pub use cadence::{Cadence, MAX_INTERVAL, Schedule};
pub use cycles::{Cycles, Period, Unit};
pub use date::{Date, InvalidDate};
pub use terms::PaymentTerms;
pub use zone::{TimeZone, UnknownTimeZone};
