//! Creates a customer.

use super::create_once;
use domain::accounts::Caller;
use domain::customers::{self, Customer, CustomerView, NewCustomer};
use domain::idempotency::{Created, CreationKey, CreationResult};
use foundation::db::Db;
use foundation::error::Result;
use foundation::time::Timestamp;

/// Creates a customer.
///
/// # Errors
/// [`Error::Conflict`](foundation::error::Error::Conflict) if another customer has the externalId; 422 for an idempotency
/// key used with another body.
pub async fn create_customer(
    db: &Db,
    caller: &Caller,
    new: NewCustomer,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<CreationResult<Customer>> {
    let customer = &new.into_customer(now);
    let find = || customers::retrieve(db, caller.account_id, customer.id);
    create_once(db, key, now, find, |mut tx| async move {
        customers::insert(&mut tx, caller, customer, now).await?;
        if let Some(key) = key {
            let view = CustomerView::new(customer, caller.livemode());
            key.store_response(&mut tx, Created::Customer(customer.id), 201, &view).await?;
        }
        Ok((tx, customer.clone()))
    })
    .await
}
