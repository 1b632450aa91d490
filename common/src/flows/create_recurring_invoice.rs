//! Making a recurring invoice. Told by mistake that nothing was done, the merchant would make a second one, and every cycle
//! would be billed twice; so a lost answer of the database is looked into.

use super::doubt::Doubt;
use super::room;
use crate::accounts::{self, Caller};
use crate::db::Db;
use crate::error::Result;
use crate::proof::failpoint;
use crate::recurring_invoices::{self, NewRecurringInvoice, RecurringInvoice};
use crate::time::Timestamp;

/// Makes a recurring invoice.
///
/// # Errors
/// 422 `endDate` or `startDate` if there is no cycle; [`Error::NotFound`](crate::error::Error::NotFound) for an unknown
/// customer, another account's too; [`Error::Conflict`](crate::error::Error::Conflict) where a test account has no room for it.
pub async fn create_recurring_invoice(
    db: &Db,
    caller: &Caller,
    new: NewRecurringInvoice,
    now: Timestamp,
) -> Result<RecurringInvoice> {
    let zone = accounts::timezone(&**db, caller.account_id).await?;
    let recurring = new.starting(caller, &zone, now)?;
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, &recurring, &mut doubt).await.map(|()| recurring.clone());
        let find = recurring_invoices::retrieve(db, caller.account_id, recurring.id);
        if let Some(written) = doubt.end(tried, find).await? {
            return Ok(written);
        }
    }
}

async fn write(db: &Db, recurring: &RecurringInvoice, doubt: &mut Doubt) -> Result<()> {
    let mut tx = db.begin().await?;
    room::hold(&mut tx, recurring.account_id, recurring.mode).await?;
    room::require(&mut tx, recurring.account_id, recurring.mode).await?;
    recurring_invoices::insert(&mut tx, recurring).await?;
    failpoint("create_recurring_invoice.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("create_recurring_invoice.committed").await
}
