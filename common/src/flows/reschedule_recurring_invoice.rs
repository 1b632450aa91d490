//! What leads a recurring invoice to another date: an update of its dates, and to resume it. Both ask for today, so there is
//! no backlog, and both pass over a cycle that has its invoice.

use sqlx::PgConnection;

use super::room;
use crate::accounts::{self, Caller};
use crate::calendar::{Date, Period};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::id::RecurringInvoiceId;
use crate::invoices;
use crate::recurring_invoices::{self, RecurringInvoice, RecurringInvoiceChange, Status};
use crate::time::Timestamp;

/// Changes what is named, and nothing else. A template is taken by the next cycle on. Other dates are those from today on; an
/// active one that has none left has run its course.
///
/// # Errors
/// [`Error::NotFound`]; 422 naming the field at fault; [`Error::Conflict`] for one that is completed or cancelled.
pub async fn update_recurring_invoice(
    db: &Db,
    caller: &Caller,
    id: RecurringInvoiceId,
    change: RecurringInvoiceChange,
    now: Timestamp,
) -> Result<RecurringInvoice> {
    let mut tx = db.begin().await?;
    let mut recurring = recurring_invoices::lock(&mut tx, caller.account_id, id).await?;
    let zone = accounts::timezone(&mut *tx, caller.account_id).await?;
    match recurring.change(change, zone.date_at(now))? {
        // Another one is asked for its next date when it is resumed.
        Some(from) if recurring.status == Status::Active => {
            let cycle = next_cycle(&mut tx, &recurring, from).await?;
            recurring_invoices::go_on(&mut tx, &mut recurring, cycle, &zone, now).await?;
        }
        Some(_) | None => recurring_invoices::save(&mut tx, &recurring).await?,
    }
    tx.commit().await?;
    Ok(recurring)
}

/// Lets a paused or parked one go on from today. An active one stays as it is.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for one that is completed or cancelled, and where a test account has no room for it.
pub async fn resume_recurring_invoice(
    db: &Db,
    caller: &Caller,
    id: RecurringInvoiceId,
    now: Timestamp,
) -> Result<RecurringInvoice> {
    let mut tx = db.begin().await?;
    room::hold(&mut tx, caller.account_id, caller.mode).await?;
    let mut recurring = recurring_invoices::lock(&mut tx, caller.account_id, id).await?;
    if recurring.status == Status::Active {
        return Ok(recurring);
    }
    if !recurring.status.may_become(Status::Active) {
        let is = recurring.status.name();
        return Err(Error::conflict(format!("a recurring invoice that is {is} cannot be resumed")));
    }
    let zone = accounts::timezone(&mut *tx, caller.account_id).await?;
    let cycle = next_cycle(&mut tx, &recurring, zone.date_at(now)).await?;
    if cycle.is_some() {
        room::require(&mut tx, caller.account_id, caller.mode).await?;
    }
    recurring_invoices::resume(&mut tx, &mut recurring, cycle, &zone, now).await?;
    tx.commit().await?;
    Ok(recurring)
}

/// The first cycle on or after a day that has no invoice yet, of one that is locked.
pub(super) async fn next_cycle(
    tx: &mut PgConnection,
    recurring: &RecurringInvoice,
    from: Date,
) -> Result<Option<Period>> {
    let schedule = recurring.schedule()?;
    let mut next = schedule.on_or_after(from);
    while let Some(cycle) = next
        && invoices::is_produced(tx, recurring.account_id, recurring.id, cycle).await?
    {
        next = schedule.on_or_after(cycle.end());
    }
    Ok(next)
}
