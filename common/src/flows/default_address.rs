//! Which of a customer's addresses is the default.

use sqlx::PgPool;

use crate::accounts::Caller;
use crate::addresses::{self, Address, Role};
use crate::customers;
use crate::db;
use crate::error::Result;
use crate::id::AddressId;

/// Makes an address its customer's default in a role, in place of the one that was. Doing so again changes nothing.
///
/// # Errors
/// [`crate::error::Error::NotFound`] for an unknown address.
pub async fn set_default_address(db: &PgPool, caller: &Caller, id: AddressId, role: Role) -> Result<Address> {
    let mut tx = db::begin(db).await?;
    let address = addresses::retrieve(&mut *tx, caller.account_id, id).await?;
    customers::set_default_address(&mut tx, caller.account_id, address.customer_id, role, id).await?;
    // Read again under the customer's lock, so that both defaults are as they stand.
    let address = addresses::retrieve(&mut *tx, caller.account_id, id).await?;
    db::commit(tx).await?;
    Ok(address)
}
