//! Bills recurring invoices: one transaction for the cycles of a batch, which also moves on to the next cycles. Every cycle
//! of an active recurring invoice is billed, in order, however late. A cycle has exactly one invoice, whether it is run
//! twice, concurrently, or killed at any point.

#[cfg(test)]
mod tests;

use crate::billing::reschedule_recurring_invoice::read_last_billed;
use crate::charge::counters::{FailedWork, count_failed};
use domain::accounts::{self, Scope};
use domain::invoices::{self, CreatedAs, Due, NewInvoice, Producer};
use domain::recurring_invoices::{self, IssueMode, Next, RecurringInvoice};
use foundation::calendar::Period;
use foundation::db::{self, Db, Tx, column, one_batch, undo_failed};
use foundation::error::{Error, Result};
use foundation::failpoint;
use foundation::id::RecurringInvoiceId;
use foundation::merchant_data::MerchantData;
use foundation::time::Timestamp;

/// Cycles per batch.
pub const RECURRING_BATCH: i64 = 100;

/// Runs due cycles, one per recurring invoice, at most `limit`. Returns how many there were: if that is `limit`, or if
/// several cycles were missed, more may be due. Safe to run concurrently.
///
/// # Errors
/// Database errors only. A cycle that cannot be billed for another reason is recorded as a failure, which is no error.
/// An error of one does not stop the others, unless the database is unavailable; then none is billed.
pub async fn run_due_recurring_invoices(db: &Db, scope: Scope, limit: i64) -> Result<usize> {
    let mut tx = db.begin().await?;
    let due = recurring_invoices::lock_due(&mut tx, scope, limit).await?;
    if due.is_empty() {
        return Ok(0);
    }
    let (mut first_error, mut batches) = (None, one_batch(&due));
    while let Some(batch) = batches.pop() {
        tx.savepoint().await?;
        let billed = bill(&mut tx, batch).await;
        let Some((alone, error)) = undo_failed(&mut tx, &mut batches, batch, billed).await? else { continue };
        if !is_final(&error) {
            // The fault of the database, which none of them can be billed without.
            first_error = first_error.or(Some(error));
        } else if let Err(error) = record_failure(&mut tx, *alone, error).await {
            if !is_final(&error) {
                return Err(error);
            }
            tx.rollback_to_savepoint().await?;
            // Such as that of a template that this release cannot read.
            count_failed(FailedWork::RecurringInvoices, 1);
            tracing::error!(recurring_invoice = %alone.0, %error, "a cycle could not be billed, and the failure not recorded");
            recurring_invoices::defer(&mut tx, alone.0, scope).await?;
            first_error = first_error.or(Some(error));
        }
    }
    failpoint!("run_recurring_invoices.written");
    tx.commit().await?;
    failpoint!("run_recurring_invoices.committed");
    first_error.map_or(Ok(due.len()), Err)
}

/// Whether a retry would fail too, unless the database rejected the statement for a reason other than its data.
fn is_final(error: &Error) -> bool {
    let Error::Database(cause) = error else { return true };
    cause.as_database_error().is_none() || db::is_rejected(cause)
}

/// Bills one cycle of each and moves on to the next.
async fn bill(tx: &mut Tx, due: &[(RecurringInvoiceId, Timestamp)]) -> Result<()> {
    let locked = recurring_invoices::find_all(tx, &column(due, |(id, _)| *id)).await?;
    let mut billed: Vec<_> = locked.into_iter().zip(due.iter().map(|(_, now)| *now)).collect();
    let mut unread: Vec<_> = billed.iter_mut().map(|(recurring, _)| recurring).collect();
    read_last_billed(tx, &mut unread).await?;
    let zones = accounts::timezones(&mut **tx, &column(&billed, |(recurring, _)| recurring.account_id)).await?;
    let mut new = Vec::new();
    for (recurring, now) in &mut billed {
        let (Some(Next { date, .. }), Some(zone)) = (recurring.next, zones.get(&recurring.account_id)) else {
            return Err(Error::internal(format!("{} is due but has no date or no time zone", recurring.id)));
        };
        let cycle = recurring.next_cycle(date)?;
        // If the account's time zone has changed, the day may not have begun there yet; and a date that was already billed
        // is not due.
        let following = match cycle.filter(|cycle| cycle.start() == date && zone.beginning_of(date) <= *now) {
            None => cycle,
            Some(cycle) => {
                let draft = new_invoice(recurring, cycle).into_draft(recurring.account_id, recurring.mode, *now);
                let created_as = match recurring.issue_mode {
                    IssueMode::AutoSend => CreatedAs::Open,
                    IssueMode::DraftForReview => CreatedAs::Draft,
                };
                new.push((draft, created_as));
                recurring.last_billed = Some(date);
                recurring.occurrence_count += 1;
                recurring.next_cycle(cycle.end())?
            }
        };
        recurring.set_next_cycle(following, zone);
    }
    invoices::create(tx, &mut new).await?;
    recurring_invoices::save_billed(tx, &billed).await
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
        merchant_data: MerchantData { metadata: recurring.metadata.clone(), external_id: None },
    }
}

/// Records that the cycle of a locked recurring invoice could not be billed.
async fn record_failure(tx: &mut Tx, (id, now): (RecurringInvoiceId, Timestamp), error: Error) -> Result<()> {
    tracing::warn!(recurring_invoice = %id, %error, "an invoice could not be created; it will be retried later, or the recurring invoice is parked");
    for mut recurring in recurring_invoices::find_all(tx, &[id]).await? {
        recurring_invoices::fail(tx, &mut recurring, now).await?;
    }
    Ok(())
}
