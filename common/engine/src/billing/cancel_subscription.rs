//! Cancels a subscription and the collection of its unpaid invoices.

use domain::accounts::Caller;
use domain::invoices;
use domain::subscriptions::{self, Status, Subscription};
use foundation::db::Db;
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
    invoices::unschedule_subscription(&mut tx, caller.account_id, id).await?;
    subscriptions::cancel(&mut tx, &mut subscription, now).await?;
    tx.commit().await?;
    Ok(subscription)
}
