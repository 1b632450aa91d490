//! Making a recurring invoice. Told by mistake that nothing was done, the merchant would make a second one, and every cycle
//! would be billed twice; so a lost answer of the database is looked into.

use super::doubt::Doubt;
use super::room;
use crate::accounts::{self, Caller};
use crate::db::Db;
use crate::error::Result;
use crate::idempotency::{self, Created, CreationKey, Made};
use crate::proof::failpoint;
use crate::recurring_invoices::{self, NewRecurringInvoice, RecurringInvoice, RecurringInvoiceView};
use crate::time::Timestamp;

/// Makes a recurring invoice.
///
/// # Errors
/// 422 `endDate` or `startDate` if there is no cycle; [`Error::NotFound`](crate::error::Error::NotFound) for an unknown
/// customer, another account's too; [`Error::Conflict`](crate::error::Error::Conflict) where a test account has no room for it; 422
/// for a key used with another body.
pub async fn create_recurring_invoice(
    db: &Db,
    caller: &Caller,
    new: NewRecurringInvoice,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<Made<RecurringInvoice>> {
    let zone = accounts::timezone(&**db, caller.account_id).await?;
    let recurring = new.starting(caller, &zone, now)?;
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, &recurring, key, now, &mut doubt).await;
        let find = async { recurring_invoices::retrieve(db, caller.account_id, recurring.id).await.map(Made::New) };
        if let Some(written) = doubt.end(tried, find).await? {
            return Ok(written);
        }
    }
}

async fn write(
    db: &Db,
    recurring: &RecurringInvoice,
    key: Option<&CreationKey>,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Made<RecurringInvoice>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(Made::Earlier(earlier));
    }
    room::hold(&mut tx, recurring.account_id, recurring.mode).await?;
    room::require(&mut tx, recurring.account_id, recurring.mode).await?;
    recurring_invoices::insert(&mut tx, recurring).await?;
    if let Some(key) = key {
        key.keep(&mut tx, Created::RecurringInvoice(recurring.id), 201, &RecurringInvoiceView::new(recurring)).await?;
    }
    failpoint("create_recurring_invoice.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("create_recurring_invoice.committed").await?;
    Ok(Made::New(recurring.clone()))
}
