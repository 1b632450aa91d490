//! What an operator does from the command line: examine the system, explain one object, and resolve unknown outcomes and
//! differences. Only `ctl` links this crate.

mod busiest;
mod differences;
pub mod inspect;
mod resolve;
mod returned;

pub use busiest::{Busiest, BusyAccount, busiest_accounts};
pub use differences::{BookDifference, DifferenceFilter, list_differences, resolve_difference};
pub use inspect::{
    AccountComparison, BookMismatch, Finding, LatestOfCustomers, PaymentHistory, Severity, TimelineEntry, Total,
    WhyInvoice, clock_off, compare_books, due, examine, examine_keys, find, incidents, latest_of_customers,
    payment_history, volume, why_invoice,
};
pub use resolve::{Comparison, Resolution, ResolveOptions, Resolved, operator_text, resolve};
pub use returned::{ReturnedCharge, mark_returned};
