//! Producing the invoices of recurring ones: a transaction for each cycle, which moves on to the next. Of an active one every
//! cycle is produced, in order, however late. Run twice, by many at once, or killed anywhere, a cycle has one invoice.

#[cfg(test)]
mod tests;

use super::reschedule_recurring_invoice::next_cycle;
use crate::accounts::{self, Scope};
use crate::calendar::Period;
use crate::db::{self, Db, Tx};
use crate::error::{Error, Result};
use crate::id::RecurringInvoiceId;
use crate::invoices::{self, Due, NewInvoice, Producer};
use crate::proof::failpoint;
use crate::recurring_invoices::{self, IssueMode, Next, RecurringInvoice};
use crate::time::Timestamp;

/// Cycles looked for at once.
pub const RECURRING_BATCH: i64 = 50;

/// Runs cycles that are due, one of each recurring invoice, `limit` at most. Answers how many were found: if it was as many as
/// allowed, or a cycle has been missed, there may be more.
///
/// # Errors
/// Only the database's. A cycle that cannot be produced for another reason is noted, and is no error; the others are run
/// whatever becomes of one.
pub async fn run_due_recurring_invoices(db: &Db, scope: Scope, limit: i64) -> Result<usize> {
    let due = recurring_invoices::due(db, scope, limit).await?;
    let mut first_error = None;
    for id in &due {
        match run(db, scope, *id).await {
            Ok(()) => {}
            Err(Error::Database(lost)) if db::lost_connection(&lost) => return Err(lost.into()),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(due.len()), Err)
}

async fn run(db: &Db, scope: Scope, id: RecurringInvoiceId) -> Result<()> {
    let mut tx = db.begin().await?;
    let Some((mut recurring, now)) = recurring_invoices::lock_due(&mut tx, id, scope).await? else { return Ok(()) };
    let due = recurring.next;
    let Err(error) = produce(&mut tx, &mut recurring, now).await else {
        failpoint("run_recurring_invoices.written").await?;
        tx.commit().await?;
        return failpoint("run_recurring_invoices.committed").await;
    };
    tx.rollback().await?;
    if is_passing(&error) {
        return Err(error);
    }
    tracing::warn!(recurring_invoice = %id, %error, "an invoice could not be produced; it is tried again later, or parked");
    note_failure(db, scope, id, due).await
}

/// Whether the database had no time or no room for it. What it refuses to keep is refused again.
fn is_passing(error: &Error) -> bool {
    let Error::Database(cause) = error else { return false };
    let refused = |code: &str| code.starts_with("22") || code.starts_with("23");
    db::lost_connection(cause)
        || cause.as_database_error().is_some_and(|said| !said.code().is_some_and(|code| refused(&code)))
}

/// One cycle: its invoice, and the move to the next.
async fn produce(tx: &mut Tx, recurring: &mut RecurringInvoice, now: Timestamp) -> Result<()> {
    let Some(Next { date, .. }) = recurring.next else {
        return Err(Error::internal(format!("{} is due and has no date", recurring.id)));
    };
    let zone = accounts::timezone(&mut **tx, recurring.account_id).await?;
    let cycle = next_cycle(tx, recurring, date).await?;
    // If the account has another zone by now, the day may be yet to begin there; and what was billed before is not due.
    let Some(cycle) = cycle.filter(|cycle| cycle.start() == date && zone.beginning_of(date) <= now) else {
        return recurring_invoices::go_on(tx, recurring, cycle, &zone, now).await;
    };
    let new = new_invoice(recurring, cycle);
    let mut invoice = invoices::draft(tx, recurring.account_id, recurring.mode, new, now).await?;
    // It passes over the day of this invoice.
    let following = next_cycle(tx, recurring, cycle.end()).await?;
    if recurring.issue_mode == IssueMode::AutoSend {
        invoices::issue(tx, &mut invoice, now).await?;
    }
    recurring.occurrence_count += 1;
    recurring_invoices::go_on(tx, recurring, following, &zone, now).await
}

fn new_invoice(recurring: &RecurringInvoice, cycle: Period) -> NewInvoice {
    let template = recurring.template.clone();
    NewInvoice {
        customer_id: recurring.customer_id,
        currency: template.currency,
        description: template.description,
        bill: template.bill,
        due: Due::Terms(template.payment_terms),
        cycle: Some((Producer::RecurringInvoice(recurring.id), cycle)),
    }
}

/// Notes a failure after its transaction was rolled back, unless somebody else has had the cycle since.
async fn note_failure(db: &Db, scope: Scope, id: RecurringInvoiceId, failed: Option<Next>) -> Result<()> {
    let mut tx = db.begin().await?;
    let locked = recurring_invoices::lock_due(&mut tx, id, scope).await?;
    let Some((mut recurring, now)) = locked.filter(|(recurring, _)| recurring.next == failed) else { return Ok(()) };
    recurring_invoices::fail(&mut tx, &mut recurring, now).await?;
    Ok(tx.commit().await?)
}
