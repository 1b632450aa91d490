//! Creates a subscription. If its first cycle begins today, it is billed in the same transaction.

use super::{create_once, quota};
use crate::billing::bill_cycle::cycle_invoice;
use domain::accounts::{self, Caller};
use domain::customers;
use domain::events::EventType;
use domain::idempotency::{Created, CreationKey, CreationResult};
use domain::invoices;
use domain::payment_methods::{self, Status as CardStatus};
use domain::plans;
use domain::subscriptions::{self, NewSubscription, Subscription, SubscriptionView};
use foundation::db::Db;
use foundation::error::{Error, Result};
use foundation::id::{CustomerId, PaymentMethodId, ProviderAccountId};
use foundation::time::Timestamp;

/// Creates a subscription.
///
/// # Errors
/// [`Error::NotFound`] for an unknown customer, plan or card; 422 `paymentMethodId` for another customer's card, or one
/// that cannot be charged; 422 `currency` or `amount` if the provider does not charge the plan's; 422 `startAt` if the
/// calendar ends before a cycle does; [`Error::Conflict`] if a test account has reached its quota; 422 for an idempotency
/// key used with another body.
pub async fn create_subscription(
    db: &Db,
    caller: &Caller,
    new: &NewSubscription,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<CreationResult<Subscription>> {
    customers::retrieve(db, caller.account_id, new.customer_id).await?;
    let plan = plans::retrieve(&**db, caller.account_id, new.plan_id).await?;
    let provider_account = match new.payment_method_id {
        Some(card) => check_card(db, caller, new.customer_id, card).await?,
        None => caller.provider_account_id,
    };
    accounts::settlement(&**db, provider_account).await?.require(plan.price())?;
    let cycles = plan.cycles(new.anchor(now))?;
    let mut subscription = Subscription::new(new, &cycles, caller, now)?;
    let first = subscription.is_due(now).then(|| subscription.begin_cycle(&cycles)).transpose()?;
    let (plan, subscription) = (&plan, &subscription);
    let find = || subscriptions::retrieve(&**db, caller.account_id, subscription.id);
    create_once(db, key, now, find, |mut tx| async move {
        let mut subscription = subscription.clone();
        quota::hold(&mut tx, subscription.account_id, subscription.mode).await?;
        quota::require(&mut tx, subscription.account_id, subscription.mode).await?;
        subscriptions::insert(&mut tx, &subscription).await?;
        if let Some(period) = first {
            let mut new = [cycle_invoice(&subscription, plan, period, now)?];
            invoices::create(&mut tx, &mut new).await?;
            subscription.latest_invoice_id = new.first().map(|(invoice, _)| invoice.id);
        }
        subscriptions::announce(&mut tx, &subscription, EventType::SubscriptionCreated, now).await?;
        if let Some(key) = key {
            let view = SubscriptionView::new(&subscription);
            match first {
                Some(_) => key.store_provisional_response(&mut tx, subscription.id, 201, &view).await?,
                None => key.store_response(&mut tx, Created::Subscription(subscription.id), 201, &view).await?,
            }
        }
        Ok((tx, subscription))
    })
    .await
}

/// Returns the provider account where the card is stored. The card's customer never changes, and the default card replaces
/// one that is detached meanwhile, so no lock is needed.
async fn check_card(db: &Db, caller: &Caller, customer: CustomerId, id: PaymentMethodId) -> Result<ProviderAccountId> {
    let card = payment_methods::retrieve_from(db, caller.account_id, id).await?;
    if card.customer_id != customer {
        return Err(Error::invalid("paymentMethodId", "the card belongs to another customer"));
    }
    if card.status != CardStatus::Active {
        return Err(Error::invalid("paymentMethodId", "the card is not saved and cannot be charged"));
    }
    Ok(card.provider_account_id)
}
