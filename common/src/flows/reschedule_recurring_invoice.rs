//! What leads a recurring invoice to another date: an update of its dates, and to resume it. Both ask for today, so there is
//! no backlog, and both pass over the days up to the last that was billed.

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
            let cycle = next_cycle(&mut tx, &mut recurring, from).await?;
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
    let cycle = next_cycle(&mut tx, &mut recurring, zone.date_at(now)).await?;
    if cycle.is_some() {
        room::require(&mut tx, caller.account_id, caller.mode).await?;
    }
    recurring_invoices::resume(&mut tx, &mut recurring, cycle, &zone, now).await?;
    tx.commit().await?;
    Ok(recurring)
}

/// The first cycle on or after a day, and after the last date that was billed, of one that is locked. Its invoices tell which
/// date that was, so a cycle that the former release has produced counts too.
pub(super) async fn next_cycle(
    tx: &mut PgConnection,
    recurring: &mut RecurringInvoice,
    from: Date,
) -> Result<Option<Period>> {
    let schedule = recurring.schedule()?;
    let billed = invoices::last_billed_date(tx, recurring.account_id, recurring.id).await?;
    recurring.last_billed = recurring.last_billed.max(billed);
    let Some(last) = recurring.last_billed else { return Ok(schedule.on_or_after(from)) };
    // After the last day of the calendar there is none.
    Ok(last.plus_days(1).and_then(|next| schedule.on_or_after(from.max(next))))
}
