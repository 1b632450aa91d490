//! Cancels a subscription and the collection of its unpaid invoices.

use crate::charge::outcome::unsent::end_unsent;
use domain::accounts::Caller;
use domain::invoices::{self, Invoice, Status as InvoiceStatus, attempts};
use domain::subscriptions::{self, Status, Subscription};
use foundation::db::{Db, Tx};
use foundation::error::Result;
use foundation::id::SubscriptionId;
use foundation::time::Timestamp;

/// Cancels a subscription immediately, and takes its invoices out of collection. A cancelled one is returned unchanged.
///
/// # Errors
/// [`Error::NotFound`](foundation::error::Error::NotFound).
pub async fn cancel_subscription(db: &Db, caller: &Caller, id: SubscriptionId, now: Timestamp) -> Result<Subscription> {
    let mut tx = db.begin().await?;
    let mut subscription = subscriptions::lock(&mut tx, caller.account_id, id).await?;
    if subscription.status == Status::Cancelled {
        return Ok(subscription);
    }
    // There are few, except after a long outage. All are locked before the first payment.
    let mut scheduled = Vec::new();
    for invoice in invoices::scheduled_of_subscription(&mut tx, caller.account_id, id).await? {
        scheduled.push(invoices::lock(&mut tx, caller.account_id, invoice).await?);
    }
    for invoice in scheduled.iter_mut().filter(|invoice| invoice.status == InvoiceStatus::Scheduled) {
        stop_collection(&mut tx, invoice, now).await?;
    }
    subscriptions::cancel(&mut tx, &mut subscription, now).await?;
    tx.commit().await?;
    Ok(subscription)
}

/// Takes a locked invoice out of collection. If a request of its attempt may have taken effect, it stays, without
/// further retries. Starting an attempt requires the lock.
async fn stop_collection(tx: &mut Tx, invoice: &mut Invoice, now: Timestamp) -> Result<()> {
    match attempts::in_flight(tx, invoice.account_id, invoice.id).await? {
        Some(payment) if !end_unsent(tx, invoice, payment, now).await? => invoices::stop_retries(tx, invoice).await,
        Some(_) | None => invoices::unschedule(tx, invoice).await,
    }
}
