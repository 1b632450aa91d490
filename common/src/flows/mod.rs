//! Stories across slices: taking a payment, saving a card, choosing defaults, changing a payment, doing an operation,
//! inquiring, collecting and voiding invoices, making a subscription, billing its cycles and cancelling it, producing
//! the invoices of recurring ones, paying on a page, advancing a test clock, sealing secrets under another key.
//!
//! A flow begins and commits its own transactions; state, event and follow-up work are written together or not at all.

mod accounts_ahead;
mod advance_clock;
mod bill_cycle;
mod books;
mod busiest;
mod cancel_subscription;
mod challenge;
mod change_payment;
mod collect_invoices;
mod counters;
mod create_address;
mod create_customer;
mod create_invoice;
mod create_payment_link;
mod create_plan;
mod create_recurring_invoice;
mod create_subscription;
mod create_webhook_endpoint;
mod default_address;
mod doubt;
mod inquire;
mod inspect;
mod invoice_payment;
mod key_check;
mod late;
mod lately;
mod link_payment;
mod outcome;
mod pay_page;
mod perform;
mod reconcile;
mod reencrypt;
mod reschedule_recurring_invoice;
mod resolve;
mod reversal;
mod room;
mod run_recurring_invoices;
mod run_subscriptions;
mod save_card;
mod schedule_invoice;
mod straight;
mod take_payment;
#[cfg(test)]
mod tests;
mod void_invoice;

pub use accounts_ahead::{AccountAhead, accounts_ahead_with_due};
pub use advance_clock::advance_clock;
pub use books::{BookDifference, Difference, DifferenceFilter, list_differences, open_differences, resolve_difference};
pub use busiest::{Busiest, BusyAccount, busiest_accounts};
pub use cancel_subscription::cancel_subscription;
pub use challenge::{Challenge, From as ChallengedFrom, challenge};
pub use change_payment::{Change, Changing, change_payment, changed};
pub use collect_invoices::{Begun, COLLECTION_BATCH, Collecting, collect_due_invoices};
pub use counters::{count_billing_from_nought, count_payments_from_nought, report_accounts};
pub use create_address::create_address;
pub use create_customer::create_customer;
pub use create_invoice::create_invoice;
pub use create_payment_link::create_payment_link;
pub use create_plan::create_plan;
pub use create_recurring_invoice::create_recurring_invoice;
pub use create_subscription::create_subscription;
pub use create_webhook_endpoint::create_webhook_endpoint;
pub use default_address::set_default_address;
pub use inquire::inquire;
pub use inspect::{
    Compared, Disagreement, Finding, Grade, Moment, Story, Total, WhyInvoice, clock_off, compare_books, due, examine,
    examine_keys, find, incidents, story_of_payment, volume, why_invoice,
};
pub use key_check::{Keys, keys_fit, misfit};
pub use lately::{SecondCharges, orphans_lately, second_charges_lately};
pub use outcome::record_outcome;
pub use pay_page::{Offer, PageAddress, PageKind, PageState, PayPage, Payable, Paying, open_page, pay_page};
pub use perform::{Performed, perform};
pub use reconcile::{DueStatements, reconcile, take_due_reconciliations};
pub use reencrypt::{SealedSecrets, reencrypt, sealed_secrets};
pub use reschedule_recurring_invoice::{resume_recurring_invoice, update_recurring_invoice};
pub use resolve::{Entering, Resolution, Resolved, Sides, resolve, typed};
pub use room::RUNNING_OF_A_TEST_ACCOUNT;
pub use run_recurring_invoices::{RECURRING_BATCH, run_due_recurring_invoices};
pub use run_subscriptions::run_due_subscriptions;
pub use save_card::{NewCard, save_card, set_default};
pub use schedule_invoice::{cancel_schedule, schedule_invoice};
pub use take_payment::{Funding, PaymentRequest, Taken, take_payment};
pub use void_invoice::void_invoice;
