//! Billing what is due of subscriptions, a cycle in each transaction: whoever dies leaves whole cycles behind, and whoever
//! comes next goes on from there. After an outage each missed cycle has its turn, the oldest first.

use std::time::Duration;

use super::bill_cycle::bill_cycle;
use crate::accounts::Scope;
use crate::db::{self, Db};
use crate::error::{Error, Result};
use crate::events::EventType;
use crate::plans;
use crate::proof::{self, Rule, failpoint};
use crate::subscriptions::{self, Due};

/// For how long a subscription is left alone whose cycle could not be billed. Only a mistake in our data or code leads there,
/// and a person has to mend it.
const PUT_OFF: Duration = Duration::from_secs(3600);

/// Bills the cycles that are due, at most one of each of so many subscriptions; answers how many have been dealt with, by
/// whomever. There may be more until it answers 0: then nothing is due but what somebody else is at, and of a single account
/// nothing at all. Any number may run at once.
///
/// # Errors
/// The database is away. What else goes wrong concerns one subscription, which is put off.
pub async fn run_due_subscriptions(db: &Db, scope: Scope, limit: i64) -> Result<usize> {
    let mut done = 0;
    for due in subscriptions::due(db, scope, limit).await? {
        match bill_next_cycle(db, scope, &due).await {
            Ok(is_done) => done += usize::from(is_done),
            Err(Error::Database(cause)) if db::lost_connection(&cause) || db::worth_repeating(&cause) => {
                return Err(cause.into());
            }
            Err(error) => {
                put_off(db, &due, &error).await?;
                done += 1;
            }
        }
    }
    Ok(done)
}

/// Whether the cycle has been dealt with. If not, somebody else is at it.
async fn bill_next_cycle(db: &Db, scope: Scope, due: &Due) -> Result<bool> {
    // A plan never changes, so it is read before anything is held.
    let plan = plans::retrieve(db, due.account_id, due.plan_id).await?;
    let mut tx = db.begin().await?;
    let Some(mut subscription) = subscriptions::lock_due(&mut tx, scope, due).await? else { return Ok(false) };
    if !subscription.is_due(due.now) {
        return Ok(true);
    }
    subscription.reckon()?;
    if !subscription.is_due(due.now) {
        // Its zone has changed its rules, and the day begins later than was thought.
        subscriptions::save(&mut tx, &subscription).await?;
        tx.commit().await?;
        return Ok(true);
    }
    let is_renewal = subscription.current_period_start.is_some();
    let period = subscription.begin_cycle(&plan.cycles(subscription.anchor)?)?;
    if proof::holds(Rule::Cycle) {
        bill_cycle(&mut tx, &subscription, &plan, period, due.now).await?;
    } else {
        // Whoever dies in between has billed a cycle that is due again.
        let mut alone = db.begin().await?;
        bill_cycle(&mut alone, &subscription, &plan, period, due.now).await?;
        alone.commit().await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    subscriptions::save(&mut tx, &subscription).await?;
    if is_renewal {
        subscriptions::announce(&mut tx, &subscription, EventType::SubscriptionRenewed, due.now).await?;
    }
    failpoint("run_subscriptions.written").await?;
    tx.commit().await?;
    failpoint("run_subscriptions.committed").await?;
    Ok(true)
}

/// It must not keep the others waiting, nor be tried again each second.
async fn put_off(db: &Db, due: &Due, error: &Error) -> Result<()> {
    metrics::counter!("billing_cycles_failed_total", "work" => "subscriptions").increment(1);
    tracing::error!(subscription = %due.id, account = %due.account_id, %error, "a cycle could not be billed; put off by an hour");
    subscriptions::put_off(db, due, due.now.plus(PUT_OFF)).await
}
