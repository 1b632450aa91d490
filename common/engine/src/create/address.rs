//! Creates an address.

use crate::ambiguous_commit::AmbiguousCommit;
use domain::accounts::Caller;
use domain::addresses::{self, Address, AddressView, NewAddress};
use domain::idempotency::{self, Created, CreationKey, CreationResult};
use foundation::db::Db;
use foundation::error::Result;
use foundation::failpoint;
use foundation::time::Timestamp;

/// Creates an address.
///
/// # Errors
/// [`Error::NotFound`](foundation::error::Error::NotFound) for an unknown customer, or one of another account; 422 for an
/// idempotency key used with another body.
pub async fn create_address(
    db: &Db,
    caller: &Caller,
    new: NewAddress,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<CreationResult<Address>> {
    let address = new.into_address(now);
    let mut commit = AmbiguousCommit::default();
    loop {
        let result = write(db, caller, &address, key, now, &mut commit).await;
        let lookup = async { addresses::retrieve(&**db, caller.account_id, address.id).await.map(CreationResult::New) };
        if let Some(created) = commit.resolve(result, lookup).await? {
            return Ok(created);
        }
    }
}

async fn write(
    db: &Db,
    caller: &Caller,
    address: &Address,
    key: Option<&CreationKey>,
    now: Timestamp,
    commit: &mut AmbiguousCommit,
) -> Result<CreationResult<Address>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(CreationResult::Earlier(earlier));
    }
    addresses::insert(&mut tx, caller.account_id, address).await?;
    if let Some(key) = key {
        key.store_response(&mut tx, Created::Address(address.id), 201, &AddressView::new(address, caller.livemode()))
            .await?;
    }
    commit.send(tx.commit()).await?;
    failpoint!("create_address.committed");
    Ok(CreationResult::New(address.clone()))
}
