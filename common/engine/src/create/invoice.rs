//! Creates an invoice on request, not from a cycle.

use crate::ambiguous_commit::AmbiguousCommit;
use domain::accounts::Caller;
use domain::idempotency::{self, Created, CreationKey, CreationResult};
use domain::invoices::{self, CreatedAs, Invoice, InvoiceView, NewInvoice};
use foundation::db::Db;
use foundation::error::Result;
use foundation::failpoint;
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
    let draft = new.into_draft(caller.account_id, caller.mode, now);
    let mut commit = AmbiguousCommit::default();
    loop {
        let result = write(db, draft.clone(), key, now, &mut commit).await;
        let lookup = async { invoices::retrieve(&**db, caller.account_id, draft.id).await.map(CreationResult::New) };
        if let Some(written) = commit.resolve(result, lookup).await? {
            return Ok(written);
        }
    }
}

async fn write(
    db: &Db,
    draft: Invoice,
    key: Option<&CreationKey>,
    now: Timestamp,
    commit: &mut AmbiguousCommit,
) -> Result<CreationResult<Invoice>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(CreationResult::Earlier(earlier));
    }
    let mut new = [(draft, CreatedAs::Open)];
    invoices::create(&mut tx, &mut new).await?;
    let [(invoice, _)] = new;
    if let Some(key) = key {
        key.store_response(&mut tx, Created::Invoice(invoice.id), 201, &InvoiceView::new(&invoice)).await?;
    }
    failpoint!("create_invoice.written");
    commit.send(tx.commit()).await?;
    failpoint!("create_invoice.committed");
    Ok(CreationResult::New(invoice))
}
