//! Making an invoice by hand.

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::db::Db;
use crate::error::Result;
use crate::invoices::{self, Invoice, NewInvoice};
use crate::proof::failpoint;
use crate::time::Timestamp;

/// Makes an invoice and issues it, in one transaction.
///
/// # Errors
/// [`Error::NotFound`](crate::error::Error::NotFound) for an unknown customer, another account's too.
pub async fn create_invoice(db: &Db, caller: &Caller, new: NewInvoice, now: Timestamp) -> Result<Invoice> {
    let draft = new.into_draft(caller.account_id, caller.mode, now);
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, draft.clone(), now, &mut doubt).await;
        if let Some(written) = doubt.end(tried, invoices::retrieve(&**db, caller.account_id, draft.id)).await? {
            return Ok(written);
        }
    }
}

async fn write(db: &Db, mut invoice: Invoice, now: Timestamp, doubt: &mut Doubt) -> Result<Invoice> {
    let mut tx = db.begin().await?;
    invoices::insert(&mut tx, &invoice).await?;
    invoices::issue(&mut tx, &mut invoice, now).await?;
    failpoint("create_invoice.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("create_invoice.committed").await?;
    Ok(invoice)
}
