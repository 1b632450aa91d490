//! Making a subscription. If its first cycle is today's, that is billed in the same transaction.

use super::bill_cycle::bill_cycle;
use super::doubt::Doubt;
use super::room;
use crate::accounts::{self, Caller};
use crate::calendar::Period;
use crate::customers;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::events::EventType;
use crate::id::{CustomerId, PaymentMethodId, ProviderAccountId};
use crate::idempotency::{self, Created, CreationKey, Made};
use crate::payment_methods::{self, Status as CardStatus};
use crate::plans::{self, Plan};
use crate::proof::failpoint;
use crate::subscriptions::{self, NewSubscription, Subscription, SubscriptionView};
use crate::time::Timestamp;

/// Makes a subscription.
///
/// # Errors
/// [`Error::NotFound`] for an unknown customer, plan or card; 422 `paymentMethodId` for a card that is another customer's or
/// cannot be charged; 422 `currency` if the account cannot be paid in that of the plan; 422 `startAt` if the calendar ends
/// before a cycle does; [`Error::Conflict`] where a test account has no room for it; 422 for a key used with another
/// body.
pub async fn create_subscription(
    db: &Db,
    caller: &Caller,
    new: &NewSubscription,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<Made<Subscription>> {
    customers::retrieve(db, caller.account_id, new.customer_id).await?;
    let plan = plans::retrieve(db, caller.account_id, new.plan_id).await?;
    let settles = match new.payment_method_id {
        Some(card) => check_card(db, caller, new.customer_id, card).await?,
        None => caller.provider_account_id,
    };
    accounts::settlement(&**db, settles).await?.require(plan.currency)?;
    let cycles = plan.cycles(new.anchor(now))?;
    let mut subscription = Subscription::new(new, &cycles, caller, now)?;
    let first = subscription.is_due(now).then(|| subscription.begin_cycle(&cycles)).transpose()?;
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, &subscription, &plan, first, key, now, &mut doubt).await;
        let find = async { subscriptions::retrieve(db, caller.account_id, subscription.id).await.map(Made::New) };
        if let Some(written) = doubt.end(tried, find).await? {
            return Ok(written);
        }
    }
}

/// Where it is kept. Neither whose a card is nor that it was saved ever changes, so nothing has to be locked.
async fn check_card(db: &Db, caller: &Caller, customer: CustomerId, id: PaymentMethodId) -> Result<ProviderAccountId> {
    let card = payment_methods::retrieve_from(db, caller.account_id, id).await?;
    if card.customer_id != customer {
        return Err(Error::invalid("paymentMethodId", "the card is another customer's"));
    }
    if card.status != CardStatus::Active {
        return Err(Error::invalid("paymentMethodId", "the card is not saved (yet) and cannot be charged"));
    }
    Ok(card.provider_account_id)
}

async fn write(
    db: &Db,
    subscription: &Subscription,
    plan: &Plan,
    first: Option<Period>,
    key: Option<&CreationKey>,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Made<Subscription>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(Made::Earlier(earlier));
    }
    room::hold(&mut tx, subscription.account_id, subscription.mode).await?;
    room::require(&mut tx, subscription.account_id, subscription.mode).await?;
    subscriptions::insert(&mut tx, subscription).await?;
    if let Some(period) = first {
        bill_cycle(&mut tx, subscription, plan, period, now).await?;
    }
    subscriptions::announce(&mut tx, subscription, EventType::SubscriptionCreated, now).await?;
    if let Some(key) = key {
        let view = SubscriptionView::new(subscription);
        key.keep(&mut tx, Created::Subscription(subscription.id), 201, &view).await?;
    }
    failpoint("create_subscription.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("create_subscription.committed").await?;
    Ok(Made::New(subscription.clone()))
}
