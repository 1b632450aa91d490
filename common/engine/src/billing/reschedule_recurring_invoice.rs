//! Moves a recurring invoice to another date, by changing its dates or by resuming it. Both schedule from today on, so
//! that there is no backlog, and skip the days up to the last one billed.

use sqlx::PgConnection;

use crate::create::quota;
use domain::accounts::{self, Caller};
use domain::invoices;
use domain::recurring_invoices::{self, RecurringInvoice, RecurringInvoiceChange, Status};
use foundation::calendar::{Date, Period};
use foundation::db::{Db, column};
use foundation::error::{Error, Result};
use foundation::id::RecurringInvoiceId;
use foundation::time::Timestamp;

/// Changes only the given fields. A new template applies from the next cycle. New dates apply from today on; an active
/// recurring invoice with no date left is completed.
///
/// # Errors
/// [`Error::NotFound`]; 422 naming the invalid field, also of a new template whose total the provider does not charge;
/// [`Error::Conflict`] for one that is completed or cancelled.
pub async fn update_recurring_invoice(
    db: &Db,
    caller: &Caller,
    id: RecurringInvoiceId,
    change: RecurringInvoiceChange,
    now: Timestamp,
) -> Result<RecurringInvoice> {
    if let Some(template) = &change.template {
        template.require_step(caller.provider)?;
    }
    let mut tx = db.begin().await?;
    let mut recurring = recurring_invoices::lock(&mut tx, caller.account_id, id).await?;
    let zone = accounts::timezone(&mut *tx, caller.account_id).await?;
    match recurring.change(change, zone.date_at(now))? {
        // Otherwise the next date is computed when it is resumed.
        Some(from) if recurring.status == Status::Active => {
            let cycle = next_cycle(&mut tx, &mut recurring, from).await?;
            recurring_invoices::set_next_cycle(&mut tx, &mut recurring, cycle, &zone, now).await?;
        }
        Some(_) | None => recurring_invoices::save(&mut tx, &mut recurring).await?,
    }
    tx.commit().await?;
    Ok(recurring)
}

/// Resumes a paused or parked recurring invoice from today on. An active one is returned unchanged.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for one that is completed or cancelled, or if a test account has reached
/// its quota.
pub async fn resume_recurring_invoice(
    db: &Db,
    caller: &Caller,
    id: RecurringInvoiceId,
    now: Timestamp,
) -> Result<RecurringInvoice> {
    let mut tx = db.begin().await?;
    quota::hold(&mut tx, caller.account_id, caller.mode).await?;
    let mut recurring = recurring_invoices::lock(&mut tx, caller.account_id, id).await?;
    if recurring.status == Status::Active {
        return Ok(recurring);
    }
    if !recurring.status.may_become(Status::Active) {
        let status = recurring.status.name();
        return Err(Error::conflict(format!("a recurring invoice that is {status} cannot be resumed")));
    }
    let zone = accounts::timezone(&mut *tx, caller.account_id).await?;
    let cycle = next_cycle(&mut tx, &mut recurring, zone.date_at(now)).await?;
    if cycle.is_some() {
        quota::require(&mut tx, caller.account_id, caller.mode).await?;
    }
    recurring_invoices::resume(&mut tx, &mut recurring, cycle, &zone, now).await?;
    tx.commit().await?;
    Ok(recurring)
}

/// Returns the first cycle on or after `from` and after the last date billed, for a locked recurring invoice.
async fn next_cycle(tx: &mut PgConnection, recurring: &mut RecurringInvoice, from: Date) -> Result<Option<Period>> {
    read_last_billed(tx, &mut [&mut *recurring]).await?;
    recurring.next_cycle(from)
}

/// Reads the last dates of locked recurring invoices also from their invoices, so that cycles billed by the previous release
/// count too.
pub async fn read_last_billed(tx: &mut PgConnection, recurring: &mut [&mut RecurringInvoice]) -> Result<()> {
    let ids = column(recurring, |recurring| (recurring.account_id, recurring.id));
    let billed = invoices::last_billed_dates(tx, &ids).await?;
    for recurring in recurring {
        recurring.last_billed = recurring.last_billed.max(billed.get(&recurring.id).copied());
    }
    Ok(())
}
