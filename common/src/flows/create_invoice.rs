//! Making an invoice by hand.

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::db::Db;
use crate::error::Result;
use crate::idempotency::{self, Created, CreationKey, Made};
use crate::invoices::{self, Invoice, InvoiceView, NewInvoice};
use crate::proof::failpoint;
use crate::time::Timestamp;

/// Makes an invoice and issues it, in one transaction.
///
/// # Errors
/// [`Error::NotFound`](crate::error::Error::NotFound) for an unknown customer, another account's too; 422 for a key used with
/// another body.
pub async fn create_invoice(
    db: &Db,
    caller: &Caller,
    new: NewInvoice,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<Made<Invoice>> {
    let draft = new.into_draft(caller.account_id, caller.mode, now);
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, draft.clone(), key, now, &mut doubt).await;
        let find = async { invoices::retrieve(&**db, caller.account_id, draft.id).await.map(Made::New) };
        if let Some(written) = doubt.end(tried, find).await? {
            return Ok(written);
        }
    }
}

async fn write(
    db: &Db,
    mut invoice: Invoice,
    key: Option<&CreationKey>,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Made<Invoice>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(Made::Earlier(earlier));
    }
    invoices::insert(&mut tx, &invoice).await?;
    invoices::issue(&mut tx, &mut invoice, now).await?;
    if let Some(key) = key {
        key.keep(&mut tx, Created::Invoice(invoice.id), 201, &InvoiceView::new(&invoice)).await?;
    }
    failpoint("create_invoice.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("create_invoice.committed").await?;
    Ok(Made::New(invoice))
}
