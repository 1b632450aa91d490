//! The use cases that span several resources. Each begins and commits its own transactions: state, event and follow-up
//! work are committed together or not at all, and no provider is called inside a transaction.

pub mod ambiguous_commit;
pub mod billing;
pub mod charge;
pub mod clock;
pub mod create;
mod delete_customer;
pub mod keys;
mod mutants;
mod pay_page;
mod payment_receipt;
pub mod reconcile;
#[cfg(test)]
mod tests;

pub use billing::cancel_subscription::cancel_subscription;
pub use billing::reschedule_recurring_invoice::{resume_recurring_invoice, update_recurring_invoice};
pub use billing::run_recurring_invoices::{RECURRING_BATCH, run_due_recurring_invoices};
pub use billing::run_subscriptions::run_due_subscriptions;
pub use billing::schedule_invoice::{cancel_schedule, schedule_invoice};
pub use billing::void_invoice::void_invoice;
pub use charge::attempt::executor::Executor;
pub use charge::attempt::perform::{Performed, perform};
pub use charge::challenge::{Challenge, ReturnTo, challenge};
pub use charge::counters::{register_billing_metrics, register_payments_metrics, report_accounts};
pub use charge::intent::change_payment::{Change, PendingChange, change_outcome, change_payment};
pub use charge::intent::collect_invoices::{BegunAttempt, COLLECTION_BATCH, CollectionRun, collect_due_invoices};
pub use charge::intent::save_card::{NewCard, detach_card, save_card, set_default};
pub use charge::intent::take_payment::{Intents, PaymentRequest, PaymentSource, TakenPayment, take_payment};
pub use charge::outcome::record_outcome;
pub use clock::advance_clock::advance_clock;
pub use clock::advanced_clocks::{AdvancedClock, advanced_clocks_with_due_work};
pub use create::address::create_address;
pub use create::customer::create_customer;
pub use create::default_address::set_default_address;
pub use create::invoice::create_invoice;
pub use create::payment_link::create_payment_link;
pub use create::plan::create_plan;
pub use create::quota::TEST_ACCOUNT_QUOTA;
pub use create::recurring_invoice::create_recurring_invoice;
pub use create::subscription::create_subscription;
pub use create::webhook_endpoint::create_webhook_endpoint;
pub use delete_customer::delete_customer;
pub use keys::key_check::{Keys, key_mismatch, require_matching_keys};
pub use keys::reencrypt::{SealedSecrets, read_binding, reencrypt, sealed_secrets};
pub use pay_page::{
    PageAddress, PageKind, PageState, PayOutcome, PayPage, PaySubmission, Payable, open_page, pay_page,
};
pub use payment_receipt::{PaymentReceipt, customer_page, payment_receipt};
pub use reconcile::books::{Difference, open_differences};
pub use reconcile::inquire::inquire;
pub use reconcile::recent::{SecondCharges, orphans_last_hour, second_charges_last_hour};
pub use reconcile::register_reconciliation_metrics;
pub use reconcile::statements::{DueStatements, reconcile, take_due_reconciliations};
