//! Creates a recurring invoice. A wrong error would make the merchant create a second one and bill every cycle twice,
//! so a COMMIT without response is verified.

use crate::ambiguous_commit::AmbiguousCommit;
use crate::create::quota;
use domain::accounts::{self, Caller};
use domain::idempotency::{self, Created, CreationKey, CreationResult};
use domain::recurring_invoices::{self, NewRecurringInvoice, RecurringInvoice, RecurringInvoiceView};
use foundation::db::Db;
use foundation::error::Result;
use foundation::failpoint;
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
    let recurring = new.into_recurring_invoice(caller, &zone, now)?;
    let mut commit = AmbiguousCommit::default();
    loop {
        let result = write(db, &recurring, key, now, &mut commit).await;
        let lookup =
            async { recurring_invoices::retrieve(db, caller.account_id, recurring.id).await.map(CreationResult::New) };
        if let Some(written) = commit.resolve(result, lookup).await? {
            return Ok(written);
        }
    }
}

async fn write(
    db: &Db,
    recurring: &RecurringInvoice,
    key: Option<&CreationKey>,
    now: Timestamp,
    commit: &mut AmbiguousCommit,
) -> Result<CreationResult<RecurringInvoice>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(CreationResult::Earlier(earlier));
    }
    quota::hold(&mut tx, recurring.account_id, recurring.mode).await?;
    quota::require(&mut tx, recurring.account_id, recurring.mode).await?;
    recurring_invoices::insert(&mut tx, recurring).await?;
    if let Some(key) = key {
        key.store_response(
            &mut tx,
            Created::RecurringInvoice(recurring.id),
            201,
            &RecurringInvoiceView::new(recurring),
        )
        .await?;
    }
    failpoint!("create_recurring_invoice.written");
    commit.send(tx.commit()).await?;
    failpoint!("create_recurring_invoice.committed");
    Ok(CreationResult::New(recurring.clone()))
}
