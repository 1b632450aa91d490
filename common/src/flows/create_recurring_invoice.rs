//! Making a recurring invoice. Told by mistake that nothing was done, the merchant would make a second one, and every cycle
//! would be billed twice; so a lost answer of the database is looked into.

use super::doubt::Doubt;
use crate::accounts::{self, Caller};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::recurring_invoices::{self, NewRecurringInvoice, RecurringInvoice};
use crate::time::Timestamp;

/// Makes a recurring invoice.
///
/// # Errors
/// 422 `endDate` or `startDate` if there is no cycle; [`Error::NotFound`] for an unknown customer, another account's too.
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
        doubt.sent();
        let Err(mut error) = recurring_invoices::insert(db, &recurring).await else { return Ok(recurring) };
        match recurring_invoices::retrieve(db, caller.account_id, recurring.id).await {
            Ok(written) => return Ok(written),
            Err(Error::NotFound(_)) => {}
            Err(unread) => error = unread,
        }
        doubt.again(error).await?;
    }
}
