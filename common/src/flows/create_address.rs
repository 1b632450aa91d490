//! Making an address.

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::addresses::{self, Address, AddressView, NewAddress};
use crate::db::Db;
use crate::error::Result;
use crate::idempotency::{self, Created, CreationKey, Made};
use crate::proof::failpoint;
use crate::time::Timestamp;

/// Makes an address.
///
/// # Errors
/// [`Error::NotFound`](crate::error::Error::NotFound) for an unknown customer, another account's too; 422 for a key used with another
/// body.
pub async fn create_address(
    db: &Db,
    caller: &Caller,
    new: NewAddress,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<Made<Address>> {
    let address = new.into_address(now);
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, caller, &address, key, now, &mut doubt).await;
        let find = async { addresses::retrieve(&**db, caller.account_id, address.id).await.map(Made::New) };
        if let Some(made) = doubt.end(tried, find).await? {
            return Ok(made);
        }
    }
}

async fn write(
    db: &Db,
    caller: &Caller,
    address: &Address,
    key: Option<&CreationKey>,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Made<Address>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(Made::Earlier(earlier));
    }
    addresses::insert(&mut tx, caller.account_id, address).await?;
    if let Some(key) = key {
        key.keep(&mut tx, Created::Address(address.id), 201, &AddressView::new(address, caller.livemode())).await?;
    }
    doubt.send(tx.commit()).await?;
    failpoint("create_address.committed").await?;
    Ok(Made::New(address.clone()))
}
