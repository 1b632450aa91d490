//! Intents: what is committed before anything is sent.

pub mod change_payment;
pub mod collect_invoices;
pub mod save_card;
pub mod take_payment;
