//! Cancelling a subscription, with the collection of what it is still owed.

use crate::accounts::Caller;
use crate::db::Db;
use crate::error::Result;
use crate::id::SubscriptionId;
use crate::invoices;
use crate::subscriptions::{self, Status, Subscription};
use crate::time::Timestamp;

/// Cancels a subscription at once, and takes its invoices out of collection. One that is cancelled stays as it is.
///
/// # Errors
/// [`Error::NotFound`](crate::error::Error::NotFound).
pub async fn cancel_subscription(db: &Db, caller: &Caller, id: SubscriptionId, now: Timestamp) -> Result<Subscription> {
    let mut tx = db.begin().await?;
    let mut subscription = subscriptions::lock(&mut tx, caller.account_id, id).await?;
    if subscription.status == Status::Cancelled {
        return Ok(subscription);
    }
    invoices::unschedule_all_of(&mut tx, caller.account_id, id).await?;
    subscriptions::cancel(&mut tx, &mut subscription, now).await?;
    tx.commit().await?;
    Ok(subscription)
}
