//! Voids an invoice, unless a request of a payment for it may take effect. Its subscription no longer counts it as unpaid.

use crate::charge::outcome::unsent::end_unsent;
use domain::accounts::Caller;
use domain::invoices::{self, Invoice, Status};
use domain::payments;
use domain::subscriptions;
use foundation::db::Db;
use foundation::error::{Error, Result};
use foundation::id::InvoiceId;
use foundation::time::Timestamp;
use foundation::{failpoint, rule_enabled};

/// Voids an invoice. A voided one is returned unchanged; a paid one keeps its payment.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] while a payment for it is in progress.
pub async fn void_invoice(db: &Db, caller: &Caller, id: InvoiceId, now: Timestamp) -> Result<Invoice> {
    // An invoice's subscription never changes, and is locked before the invoice.
    let produced = invoices::retrieve(&**db, caller.account_id, id).await?;
    let mut tx = db.begin().await?;
    let mut subscription = subscriptions::lock_producer(&mut tx, &produced).await?;
    let mut invoice = invoices::lock(&mut tx, caller.account_id, id).await?;
    if invoice.status == Status::Voided {
        return Ok(invoice);
    }
    // A payment begins by locking the invoice, so none can begin from here on.
    let live = payments::live_for_invoice(&mut tx, caller.account_id, id).await?;
    if let Some(payment) = live.filter(|payment| payment.status.is_under_way() && rule_enabled!(Void))
        && !end_unsent(&mut tx, &invoice, payment.id, now).await?
    {
        return Err(Error::conflict("a payment for the invoice is in progress"));
    }
    invoices::void(&mut tx, &mut invoice, now).await?;
    if let Some(subscription) = &mut subscription {
        subscriptions::invoice_paid(&mut tx, subscription).await?;
    }
    failpoint!("void_invoice.written");
    tx.commit().await?;
    Ok(invoice)
}
