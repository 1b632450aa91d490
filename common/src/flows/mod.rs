//! Use cases that span several slices: taking, changing and reconciling payments, executing operations, saving cards,
//! invoicing and collecting, subscriptions and recurring invoices, payment pages, test clocks, re-encryption, and
//! operator queries.
//!
//! A flow begins and commits its own transactions; state, event and follow-up work are committed together or not at
//! all.

mod advance_clock;
mod advanced_clocks;
mod ambiguous_commit;
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
mod fast_path;
mod inquire;
mod inspect;
mod invoice_payment;
mod key_check;
mod link_payment;
mod outcome;
mod pay_page;
mod perform;
mod quota;
mod recent;
mod reconcile;
mod reencrypt;
mod reschedule_recurring_invoice;
mod resolve;
mod reversal;
mod run_recurring_invoices;
mod run_subscriptions;
mod save_card;
mod schedule_invoice;
mod stale;
mod take_payment;
#[cfg(test)]
mod tests;
mod void_invoice;

pub use advance_clock::advance_clock;
pub use advanced_clocks::{AdvancedClock, advanced_clocks_with_due_work};
pub use books::{BookDifference, Difference, DifferenceFilter, list_differences, open_differences, resolve_difference};
pub use busiest::{Busiest, BusyAccount, busiest_accounts};
pub use cancel_subscription::cancel_subscription;
pub use challenge::{Challenge, ReturnTo, challenge};
pub use change_payment::{Change, PendingChange, change_outcome, change_payment};
pub use collect_invoices::{BegunAttempt, COLLECTION_BATCH, CollectionRun, collect_due_invoices};
pub use counters::{register_billing_metrics, register_payments_metrics, report_accounts};
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
    AccountComparison, BookMismatch, Finding, Grade, PaymentHistory, TimelineEntry, Total, WhyInvoice, clock_off,
    compare_books, due, examine, examine_keys, find, incidents, payment_history, volume, why_invoice,
};
pub use key_check::{Keys, key_mismatch, require_matching_keys};
pub use outcome::record_outcome;
pub use pay_page::{
    PageAddress, PageKind, PageState, PayOutcome, PayPage, PaySubmission, Payable, open_page, pay_page,
};
pub use perform::{Performed, perform};
pub use quota::TEST_ACCOUNT_QUOTA;
pub use recent::{SecondCharges, orphans_last_hour, second_charges_last_hour};
pub use reconcile::{DueStatements, reconcile, take_due_reconciliations};
pub use reencrypt::{SealedSecrets, reencrypt, sealed_secrets};
pub use reschedule_recurring_invoice::{resume_recurring_invoice, update_recurring_invoice};
pub use resolve::{Comparison, Resolution, ResolveOptions, Resolved, operator_text, resolve};
pub use run_recurring_invoices::{RECURRING_BATCH, run_due_recurring_invoices};
pub use run_subscriptions::run_due_subscriptions;
pub use save_card::{NewCard, save_card, set_default};
pub use schedule_invoice::{cancel_schedule, schedule_invoice};
pub use take_payment::{Funding, PaymentRequest, TakenPayment, take_payment};
pub use void_invoice::void_invoice;
