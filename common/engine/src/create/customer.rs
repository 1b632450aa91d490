//! Creates a customer.

use crate::ambiguous_commit::AmbiguousCommit;
use domain::accounts::Caller;
use domain::customers::{self, Customer, CustomerView, NewCustomer};
use domain::idempotency::{self, Created, CreationKey, CreationResult};
use foundation::db::Db;
use foundation::error::Result;
use foundation::failpoint;
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
    let customer = new.into_customer(now);
    let mut commit = AmbiguousCommit::default();
    loop {
        let result = write(db, caller, &customer, key, now, &mut commit).await;
        let lookup = async { customers::retrieve(db, caller.account_id, customer.id).await.map(CreationResult::New) };
        if let Some(created) = commit.resolve(result, lookup).await? {
            return Ok(created);
        }
    }
}

async fn write(
    db: &Db,
    caller: &Caller,
    customer: &Customer,
    key: Option<&CreationKey>,
    now: Timestamp,
    commit: &mut AmbiguousCommit,
) -> Result<CreationResult<Customer>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(CreationResult::Earlier(earlier));
    }
    customers::insert(&mut tx, caller, customer, now).await?;
    if let Some(key) = key {
        key.store_response(
            &mut tx,
            Created::Customer(customer.id),
            201,
            &CustomerView::new(customer, caller.livemode()),
        )
        .await?;
    }
    failpoint!("create_customer.written");
    commit.send(tx.commit()).await?;
    failpoint!("create_customer.committed");
    Ok(CreationResult::New(customer.clone()))
}
