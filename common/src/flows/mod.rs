//! Stories across slices: taking a payment, saving a card, choosing defaults, changing a payment, doing an operation,
//! inquiring, voiding an invoice, paying on a page.
//!
//! A flow begins and commits its own transactions; state, event and follow-up work are written together or not at all.

mod change_payment;
mod collect_invoices;
mod default_address;
mod doubt;
mod inquire;
mod invoice_payment;
mod link_payment;
mod outcome;
mod pay_page;
mod perform;
mod reconcile;
mod reversal;
mod save_card;
mod schedule_invoice;
mod straight;
mod take_payment;
mod void_invoice;

pub use change_payment::{Change, Changing, change_payment, changed};
pub use collect_invoices::{Begun, COLLECTION_BATCH, Collecting, collect_due_invoices};
pub use default_address::set_default_address;
pub use inquire::inquire;
pub use outcome::record_outcome;
pub use pay_page::{PageAddress, PageKind, PageState, PayPage, Payable, Paying, open_page, pay_page};
pub use perform::{Performed, perform};
pub use reconcile::{reconcile, take_due_reconciliations};
pub use save_card::{NewCard, save_card, set_default};
pub use schedule_invoice::{cancel_schedule, schedule_invoice};
pub use take_payment::{Funding, PaymentRequest, Taken, take_payment};
pub use void_invoice::void_invoice;
