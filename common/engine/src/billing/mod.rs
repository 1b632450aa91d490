//! Subscriptions, recurring invoices and collections: what becomes due, and what it leads to.

pub mod bill_cycle;
pub mod cancel_subscription;
pub mod reschedule_recurring_invoice;
pub mod run_recurring_invoices;
pub mod run_subscriptions;
pub mod schedule_invoice;
pub mod void_invoice;
