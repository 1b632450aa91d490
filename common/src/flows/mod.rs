//! Stories across slices: taking a payment, saving a card, choosing defaults, changing a payment, doing an operation,
//! inquiring, voiding an invoice, producing the invoices of recurring ones.
//!
//! A flow begins and commits its own transactions; state, event and follow-up work are written together or not at all.

mod change_payment;
mod default_address;
mod doubt;
mod inquire;
mod outcome;
mod perform;
mod reconcile;
mod reschedule_recurring_invoice;
mod run_recurring_invoices;
mod save_card;
mod straight;
mod take_payment;
mod void_invoice;

pub use change_payment::{Change, Changing, change_payment, changed};
pub use default_address::set_default_address;
pub use inquire::inquire;
pub use outcome::record_outcome;
pub use perform::{Performed, perform};
pub use reconcile::{reconcile, take_due_reconciliations};
pub use reschedule_recurring_invoice::{resume_recurring_invoice, update_recurring_invoice};
pub use run_recurring_invoices::{RECURRING_BATCH, run_due_recurring_invoices};
pub use save_card::{NewCard, save_card, set_default};
pub use take_payment::{Funding, PaymentRequest, Taken, take_payment};
pub use void_invoice::void_invoice;
