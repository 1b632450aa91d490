//! Voiding an invoice: not while it may be paid at this moment. A subscription is owed it no more.

use crate::accounts::Caller;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::id::InvoiceId;
use crate::invoices::{self, Invoice, Status};
use crate::payments;
use crate::proof::{self, Rule, failpoint};
use crate::subscriptions;
use crate::time::Timestamp;

/// Voids an invoice. One that is voided stays as it is; one that was paid keeps its payment.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] while a payment for it is under way.
pub async fn void_invoice(db: &Db, caller: &Caller, id: InvoiceId, now: Timestamp) -> Result<Invoice> {
    // What produced an invoice never changes. A subscription is locked before its invoice.
    let produced = invoices::retrieve(&**db, caller.account_id, id).await?;
    let mut tx = db.begin().await?;
    let mut subscription = subscriptions::lock_producer(&mut tx, &produced).await?;
    let mut invoice = invoices::lock(&mut tx, caller.account_id, id).await?;
    if invoice.status == Status::Voided {
        return Ok(invoice);
    }
    // Whoever begins a payment for an invoice locks it first, so none begins from here on.
    let payment = payments::live_for_invoice(&mut tx, caller.account_id, id).await?;
    if payment.is_some_and(payments::Status::is_under_way) && proof::holds(Rule::Void) {
        return Err(Error::conflict("a payment for the invoice is under way"));
    }
    invoices::void(&mut tx, &mut invoice, now).await?;
    if let Some(subscription) = &mut subscription {
        subscriptions::invoice_paid(&mut tx, subscription).await?;
    }
    failpoint("void_invoice.written").await?;
    tx.commit().await?;
    Ok(invoice)
}
