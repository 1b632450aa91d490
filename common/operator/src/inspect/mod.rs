//! Read-only queries for operators, about one payment or invoice or the whole system.

mod anomalies;
mod books;
mod doctor;
pub mod due;
mod environment;
pub mod find;
mod finding;
pub mod incidents;
mod invoice;
mod keys;
mod latest;
mod payment;
mod verdict;
pub mod volume;

pub use books::{AccountComparison, BookMismatch, Total, compare_books};
pub use doctor::{clock_off, examine};
pub use finding::{Finding, Severity};
pub use invoice::{WhyInvoice, why_invoice};
pub use keys::examine_keys;
pub use latest::{LatestOfCustomers, latest_of_customers};
pub use payment::{PaymentHistory, TimelineEntry, payment_history};
