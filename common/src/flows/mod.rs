//! Stories across slices: taking a payment, saving a card, doing an operation, settling.
//!
//! A flow begins and commits its own transactions; state, event and follow-up work are written together or not at all.

mod doubt;
mod outcome;
mod perform;
mod save_card;
mod settle;
mod take_payment;

pub use outcome::record_outcome;
pub use perform::{Performed, perform};
pub use save_card::{NewCard, save_card, set_default};
pub use settle::settle;
pub use take_payment::{Funding, PaymentRequest, Taken, take_payment};
