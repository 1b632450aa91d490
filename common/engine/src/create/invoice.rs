//! Creates an invoice on request, not from a cycle.

use super::create_once;
use domain::accounts::Caller;
use domain::idempotency::{Created, CreationKey, CreationResult};
use domain::invoices::{self, CreatedAs, Invoice, InvoiceView, NewInvoice};
use foundation::db::Db;
use foundation::error::Result;
use foundation::time::Timestamp;

/// Creates and issues an invoice in one transaction.
///
/// # Errors
/// 422 with the field that makes a total that the provider does not charge;
/// [`Error::NotFound`](foundation::error::Error::NotFound) for an unknown customer, or one of another account; 422 for an
/// idempotency key used with another body.
pub async fn create_invoice(
    db: &Db,
    caller: &Caller,
    new: NewInvoice,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<CreationResult<Invoice>> {
    new.bill.require_step(caller.provider, new.currency)?;
    let draft = &new.into_draft(caller.account_id, caller.mode, now);
    let find = || invoices::retrieve(&**db, caller.account_id, draft.id);
    create_once(db, key, now, find, |mut tx| async move {
        let mut new = [(draft.clone(), CreatedAs::Open)];
        invoices::create(&mut tx, &mut new).await?;
        let [(invoice, _)] = new;
        if let Some(key) = key {
            key.store_response(&mut tx, Created::Invoice(invoice.id), 201, &InvoiceView::new(&invoice)).await?;
        }
        Ok((tx, invoice))
    })
    .await
}
