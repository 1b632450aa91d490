//! Inspecting: what an operator asks about one payment or invoice, and about the whole. Nothing here changes anything.

mod around;
mod books;
mod doctor;
pub mod due;
pub mod find;
pub mod incidents;
mod invoice;
mod keys;
mod payment;
mod verdict;
pub mod volume;

pub use books::{Compared, Disagreement, Total, compare_books};
pub use doctor::{Finding, Grade, clock_off, examine};
pub use invoice::{WhyInvoice, why_invoice};
pub use keys::examine_keys;
pub use payment::{Moment, Story, story_of_payment};
