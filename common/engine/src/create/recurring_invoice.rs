//! Creates a recurring invoice. A wrong error would make the merchant create a second one and bill every cycle twice,
//! so a COMMIT without response is verified.

use super::{create_once, quota};
use domain::accounts::{self, Caller};
use domain::idempotency::{Created, CreationKey, CreationResult};
use domain::recurring_invoices::{self, NewRecurringInvoice, RecurringInvoice, RecurringInvoiceView};
use foundation::db::Db;
use foundation::error::Result;
use foundation::time::Timestamp;

/// Creates a recurring invoice.
///
/// # Errors
/// 422 with the field of `template` that makes a total that the provider does not charge; 422 `endDate` or `startDate` if
/// there is no cycle; [`Error::NotFound`](foundation::error::Error::NotFound) for an unknown
/// customer, or one of another account; [`Error::Conflict`](foundation::error::Error::Conflict) if a test account has
/// reached its quota; 422 for an idempotency key used with another body.
pub async fn create_recurring_invoice(
    db: &Db,
    caller: &Caller,
    new: NewRecurringInvoice,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<CreationResult<RecurringInvoice>> {
    new.template.require_step(caller.provider)?;
    let zone = accounts::timezone(&**db, caller.account_id).await?;
    let recurring = &new.into_recurring_invoice(caller, &zone, now)?;
    let find = || recurring_invoices::retrieve(db, caller.account_id, recurring.id);
    create_once(db, key, now, find, |mut tx| async move {
        quota::hold(&mut tx, recurring.account_id, recurring.mode).await?;
        quota::require(&mut tx, recurring.account_id, recurring.mode).await?;
        recurring_invoices::insert(&mut tx, recurring).await?;
        if let Some(key) = key {
            let view = RecurringInvoiceView::new(recurring);
            key.store_response(&mut tx, Created::RecurringInvoice(recurring.id), 201, &view).await?;
        }
        Ok((tx, recurring.clone()))
    })
    .await
}
