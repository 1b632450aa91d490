//! Bills due subscription cycles, one per transaction, so that an interrupted run leaves only whole cycles and the next
//! run continues. After an outage all missed cycles are billed, oldest first.

use std::time::Duration;

use crate::billing::bill_cycle::bill_cycle;
use crate::mutants;
use domain::accounts::Scope;
use domain::events::EventType;
use domain::plans;
use domain::subscriptions::{self, Due};
use foundation::db::{self, Db};
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
/// Database errors if it is unavailable. Any other error concerns one subscription, which is deferred.
pub async fn run_due_subscriptions(db: &Db, scope: Scope, limit: i64) -> Result<usize> {
    let mut done = 0;
    for due in subscriptions::due(db, scope, limit).await? {
        match bill_next_cycle(db, scope, &due).await {
            Ok(is_done) => done += usize::from(is_done),
            Err(Error::Database(cause)) if db::lost_connection(&cause) || db::is_retryable(&cause) => {
                return Err(cause.into());
            }
            Err(error) => {
                defer(db, &due, &error).await?;
                done += 1;
            }
        }
    }
    Ok(done)
}

/// Returns whether the cycle was handled. `false` if another process holds it.
async fn bill_next_cycle(db: &Db, scope: Scope, due: &Due) -> Result<bool> {
    // A plan never changes, so it is read before any lock is taken.
    let plan = plans::retrieve(&**db, due.account_id, due.plan_id).await?;
    let mut tx = db.begin().await?;
    let Some(mut subscription) = subscriptions::lock_due(&mut tx, scope, due).await? else { return Ok(false) };
    if !subscription.is_due(due.now) {
        return Ok(true);
    }
    subscription.recompute_billing_time()?;
    if !subscription.is_due(due.now) {
        // Its time zone's rules have changed, and the day begins later than computed before.
        subscriptions::save(&mut tx, &mut subscription).await?;
        tx.commit().await?;
        return Ok(true);
    }
    let is_renewal = subscription.current_period_start.is_some();
    let period = subscription.begin_cycle(&plan.cycles(subscription.anchor)?)?;
    let invoice = match rule_enabled!(Cycle) {
        true => bill_cycle(&mut tx, &subscription, &plan, period, due.now).await?,
        false => mutants::bill_cycle_alone(db, &subscription, &plan, period, due.now).await?,
    };
    subscription.latest_invoice_id = Some(invoice);
    subscriptions::save(&mut tx, &mut subscription).await?;
    if is_renewal {
        subscriptions::announce(&mut tx, &subscription, EventType::SubscriptionRenewed, due.now).await?;
    }
    failpoint!("run_subscriptions.written");
    tx.commit().await?;
    failpoint!("run_subscriptions.committed");
    Ok(true)
}

/// Defers a subscription, so that it neither blocks the others nor is retried every second.
async fn defer(db: &Db, due: &Due, error: &Error) -> Result<()> {
    metrics::counter!("billing_cycles_failed_total", "work" => "subscriptions").increment(1);
    tracing::error!(subscription = %due.id, account = %due.account_id, %error, "a cycle could not be billed; deferred for an hour");
    subscriptions::defer(db, due, due.now.plus(DEFERRAL)).await
}
