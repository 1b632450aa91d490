//! Bills recurring invoices: one transaction per cycle, which also moves on to the next cycle. Every cycle of an active
//! recurring invoice is billed, in order, however late. A cycle has exactly one invoice, whether it is run twice,
//! concurrently, or killed at any point.

#[cfg(test)]
mod tests;

use crate::billing::reschedule_recurring_invoice::next_cycle;
use domain::accounts::{self, Scope};
use domain::invoices::{self, Due, NewInvoice, Producer};
use domain::recurring_invoices::{self, IssueMode, Next, RecurringInvoice};
use foundation::calendar::Period;
use foundation::db::{self, Db, Tx};
use foundation::error::{Error, Result};
use foundation::failpoint;
use foundation::id::RecurringInvoiceId;
use foundation::own_data::OwnData;
use foundation::time::Timestamp;

/// Cycles per batch.
pub const RECURRING_BATCH: i64 = 50;

/// Runs due cycles, one per recurring invoice, at most `limit`. Returns how many were found: if that is `limit`, or if
/// several cycles were missed, more may be due.
///
/// # Errors
/// Database errors only. A cycle that cannot be billed for another reason is recorded as a failure, which is no error.
/// An error of one does not stop the others.
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
    let Err(error) = bill(&mut tx, &mut recurring, now).await else {
        failpoint!("run_recurring_invoices.written");
        tx.commit().await?;
        failpoint!("run_recurring_invoices.committed");
        return Ok(());
    };
    tx.rollback().await?;
    if is_transient(&error) {
        return Err(error);
    }
    tracing::warn!(recurring_invoice = %id, %error, "an invoice could not be created; it will be retried later, or the recurring invoice is parked");
    record_failure(db, scope, id, due).await
}

/// Whether the database rejected the statement for a reason other than its data (SQLSTATE classes 22 and 23), so that a
/// retry may succeed.
fn is_transient(error: &Error) -> bool {
    let Error::Database(cause) = error else { return false };
    let is_rejected = |code: &str| code.starts_with("22") || code.starts_with("23");
    db::lost_connection(cause)
        || cause.as_database_error().is_some_and(|error| !error.code().is_some_and(|code| is_rejected(&code)))
}

/// Bills one cycle and moves on to the next.
async fn bill(tx: &mut Tx, recurring: &mut RecurringInvoice, now: Timestamp) -> Result<()> {
    let Some(Next { date, .. }) = recurring.next else {
        return Err(Error::internal(format!("{} is due but has no date", recurring.id)));
    };
    let zone = accounts::timezone(&mut **tx, recurring.account_id).await?;
    let cycle = next_cycle(tx, recurring, date).await?;
    // If the account's time zone has changed, the day may not have begun there yet; and a date that was already billed
    // is not due.
    let Some(cycle) = cycle.filter(|cycle| cycle.start() == date && zone.beginning_of(date) <= now) else {
        return recurring_invoices::set_next_cycle(tx, recurring, cycle, &zone, now).await;
    };
    let new = new_invoice(recurring, cycle);
    let mut invoice = invoices::draft(tx, recurring.account_id, recurring.mode, new, now).await?;
    // `next_cycle` skips the date of the invoice just drafted.
    let following = next_cycle(tx, recurring, cycle.end()).await?;
    if recurring.issue_mode == IssueMode::AutoSend {
        invoices::issue(tx, &mut invoice, now).await?;
    }
    recurring.occurrence_count += 1;
    recurring_invoices::set_next_cycle(tx, recurring, following, &zone, now).await
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
        own: OwnData { metadata: recurring.metadata.clone(), external_id: None },
    }
}

/// Records a failure after its transaction was rolled back, unless another process has run the cycle since.
async fn record_failure(db: &Db, scope: Scope, id: RecurringInvoiceId, failed: Option<Next>) -> Result<()> {
    let mut tx = db.begin().await?;
    let locked = recurring_invoices::lock_due(&mut tx, id, scope).await?;
    let Some((mut recurring, now)) = locked.filter(|(recurring, _)| recurring.next == failed) else { return Ok(()) };
    recurring_invoices::fail(&mut tx, &mut recurring, now).await?;
    Ok(tx.commit().await?)
}
