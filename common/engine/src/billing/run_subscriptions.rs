//! Bills due subscription cycles, a batch per transaction, so that an interrupted run leaves only whole cycles and the next
//! run continues. After an outage all missed cycles are billed, oldest first.

use std::time::Duration;

use crate::billing::bill_cycle::cycle_invoice;
use crate::charge::counters::{FailedWork, count_failed};
use crate::mutants;
use domain::accounts::Scope;
use domain::events::{self, EventType};
use domain::invoices;
use domain::plans;
use domain::subscriptions::{self, Due};
use foundation::db::{Db, Tx, column, one_batch, undo_failed};
use foundation::error::{Error, Result};
use foundation::{failpoint, rule_enabled};

/// How long a subscription whose cycle could not be billed is deferred. Only an error in our data or code causes this,
/// and it must be fixed manually.
const DEFERRAL: Duration = Duration::from_secs(3600);

/// Bills due cycles, one per subscription, at most `limit`. Returns how many were handled, by this or another process.
/// Until it returns 0 more may be due; then only cycles held by other processes are, or for a single account none. Safe
/// to run concurrently.
///
/// # Errors
/// Database errors if it is unavailable; then none is billed. Any other error concerns one subscription, which is deferred.
pub async fn run_due_subscriptions(db: &Db, scope: Scope, limit: i64) -> Result<usize> {
    let mut tx = db.begin().await?;
    let due = subscriptions::lock_due(&mut tx, scope, limit).await?;
    if due.is_empty() {
        return Ok(0);
    }
    let mut batches = one_batch(&due);
    while let Some(batch) = batches.pop() {
        tx.savepoint().await?;
        let billed = bill_next_cycles(db, &mut tx, batch).await;
        if let Some((due, error)) = undo_failed(&mut tx, &mut batches, batch, billed).await? {
            defer(&mut tx, due, &error).await?;
        }
    }
    failpoint!("run_subscriptions.written");
    tx.commit().await?;
    failpoint!("run_subscriptions.committed");
    Ok(due.len())
}

/// Bills one cycle of each subscription that is still due.
async fn bill_next_cycles(db: &Db, tx: &mut Tx, due: &[Due]) -> Result<()> {
    let plans = plans::find_all(&mut **tx, &column(due, |due| due.plan_id)).await?;
    // With the invoices of cycles that were billed while the locks were awaited.
    let mut locked = subscriptions::find_all(&mut **tx, &column(due, |due| due.id)).await?;
    let (mut changed, mut cycles) = (Vec::new(), Vec::new());
    for due in due {
        let subscription = locked.remove(&due.id).filter(|subscription| subscription.is_due(due.now));
        let Some(mut subscription) = subscription else { continue };
        subscription.recompute_billing_time()?;
        let mut renewed_at = None;
        // Otherwise its time zone's rules have changed, and the day begins later than computed before.
        if subscription.is_due(due.now) {
            renewed_at = subscription.current_period_start.map(|_| due.now);
            let plan = plans.get(&due.plan_id).ok_or_else(|| Error::no_such("plan", due.plan_id))?;
            let period = subscription.begin_cycle(&plan.cycles(subscription.anchor)?)?;
            let (invoice, created_as) = cycle_invoice(&subscription, plan, period, due.now)?;
            subscription.latest_invoice_id = Some(invoice.id);
            cycles.push((invoice, created_as));
        }
        changed.push((subscription, renewed_at));
    }
    match rule_enabled!(Cycle) {
        true => invoices::create(tx, &mut cycles).await?,
        false => mutants::create_invoices_alone(db, &mut cycles).await?,
    }
    let mut saved: Vec<_> = changed.iter_mut().map(|(subscription, _)| subscription).collect();
    subscriptions::save(tx, &mut saved).await?;
    let renewals = changed.iter().filter_map(|(subscription, renewed_at)| {
        Some(subscriptions::event(subscription, EventType::SubscriptionRenewed, (*renewed_at)?))
    });
    let renewals: Vec<_> = renewals.collect::<Result<_>>()?;
    events::append_all(tx, &renewals).await
}

/// Defers a subscription, so that it neither blocks the others nor is retried every second.
async fn defer(tx: &mut Tx, due: &Due, error: &Error) -> Result<()> {
    count_failed(FailedWork::Subscriptions, 1);
    tracing::error!(subscription = %due.id, account = %due.account_id, %error, "a cycle could not be billed; deferred for an hour");
    subscriptions::defer(tx, due, due.now.plus(DEFERRAL)).await
}
