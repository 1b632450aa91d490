//! Creates an address.

use super::create_once;
use domain::accounts::Caller;
use domain::addresses::{self, Address, AddressView, NewAddress};
use domain::idempotency::{Created, CreationKey, CreationResult};
use foundation::db::Db;
use foundation::error::Result;
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
    let address = &new.into_address(now);
    let find = || addresses::retrieve(&**db, caller.account_id, address.id);
    create_once(db, key, now, find, |mut tx| async move {
        addresses::insert(&mut tx, caller.account_id, address).await?;
        if let Some(key) = key {
            let view = AddressView::new(address, caller.livemode());
            key.store_response(&mut tx, Created::Address(address.id), 201, &view).await?;
        }
        Ok((tx, address.clone()))
    })
    .await
}
