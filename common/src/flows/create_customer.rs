//! Making a customer.

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::customers::{self, Customer, CustomerView, NewCustomer};
use crate::db::Db;
use crate::error::Result;
use crate::idempotency::{self, Created, CreationKey, Made};
use crate::proof::failpoint;
use crate::time::Timestamp;

/// Makes a customer.
///
/// # Errors
/// [`Error::Conflict`](crate::error::Error::Conflict) if another customer has the externalId; 422 for a key used with another body.
pub async fn create_customer(
    db: &Db,
    caller: &Caller,
    new: NewCustomer,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<Made<Customer>> {
    let customer = new.into_customer(now);
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, caller, &customer, key, now, &mut doubt).await;
        let find = async { customers::retrieve(db, caller.account_id, customer.id).await.map(Made::New) };
        if let Some(made) = doubt.end(tried, find).await? {
            return Ok(made);
        }
    }
}

async fn write(
    db: &Db,
    caller: &Caller,
    customer: &Customer,
    key: Option<&CreationKey>,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Made<Customer>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(Made::Earlier(earlier));
    }
    customers::insert(&mut tx, caller, customer, now).await?;
    if let Some(key) = key {
        key.keep(&mut tx, Created::Customer(customer.id), 201, &CustomerView::new(customer, caller.livemode())).await?;
    }
    failpoint("create_customer.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("create_customer.committed").await?;
    Ok(Made::New(customer.clone()))
}
