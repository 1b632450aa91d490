//! What workers and the scheduler do wrong while a test disables a rule (docs/chaos.md, Mutants). Otherwise each
//! function is not called, or does nothing; a rule can be disabled in debug builds only.

use std::time::Duration;

use crate::charge::attempt::executor::Executor;
use crate::charge::outcome::append_event;
use domain::charges::{self, Claimed};
use domain::invoices::{self, CreatedAs, Invoice};
use domain::operations::{self, FIRST_PUSH_AFTER, State};
use domain::payments;
use foundation::db::{Db, Tx};
use foundation::error::Result;
use foundation::id::OperationId;
use foundation::rule_enabled;

/// Without the rule `claim`, every worker that finds the operation unclaimed takes it.
pub(crate) async fn claim_without_lease(executor: &Executor, id: OperationId) -> Result<Option<Claimed>> {
    let Executor { db, clock, batches, .. } = executor;
    let mut claimed = charges::read(db, id, clock.now()).await?;
    let state = operations::state(db, claimed.account_id, id).await?;
    tokio::time::sleep(FIRST_PUSH_AFTER * 2).await;
    batches.claim(id).await?;
    claimed.sent_before = state != State::Ready;
    Ok((!state.is_final()).then_some(claimed))
}

/// Without the rule `event`, the event is appended in a later transaction, and a crash before it loses the event.
pub(crate) async fn append_event_later(executor: &Executor, claimed: &Claimed) -> Result<()> {
    let Some(id) = claimed.charged_payment().filter(|_| !rule_enabled!(Event)) else { return Ok(()) };
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut tx = executor.db.begin().await?;
    let payment = payments::lock(&mut tx, claimed.account_id, id).await?;
    if let Some(event) = charges::event_of(&payment) {
        let now = claimed.time.now(&mut *tx, &executor.clock).await?;
        append_event(&mut tx, &payment, event, None, now).await?;
    }
    Ok(tx.commit().await?)
}

/// Without the rule `collect`, due invoices are not locked until their collection is written: a concurrent run finds them
/// due too.
pub(crate) async fn unlock_due_invoices(db: &Db, tx: Tx) -> Result<Tx> {
    if rule_enabled!(Collect) {
        return Ok(tx);
    }
    tx.rollback().await?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    Ok(db.begin().await?)
}

/// Without the rule `cycle`, the invoices of cycles are committed before their subscriptions: a crash in between leaves
/// billed cycles that are due again.
pub(crate) async fn create_invoices_alone(db: &Db, new: &mut [(Invoice, CreatedAs)]) -> Result<()> {
    let mut tx = db.begin().await?;
    invoices::create(&mut tx, new).await?;
    tx.commit().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}
