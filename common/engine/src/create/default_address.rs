//! Sets a customer's default address.

use sqlx::PgPool;

use domain::accounts::Caller;
use domain::addresses::{self, Address, Role};
use domain::customers;
use foundation::db;
use foundation::error::Result;
use foundation::id::AddressId;

/// Makes an address its customer's default in a role, replacing the previous one. Repeating it changes nothing.
///
/// # Errors
/// [`foundation::error::Error::NotFound`] for an unknown address.
pub async fn set_default_address(db: &PgPool, caller: &Caller, id: AddressId, role: Role) -> Result<Address> {
    let mut tx = db::begin(db).await?;
    let address = addresses::retrieve(&mut *tx, caller.account_id, id).await?;
    customers::set_default_address(&mut tx, caller.account_id, address.customer_id, role, id).await?;
    // Read again under the customer's lock, so that both defaults are current.
    let address = addresses::retrieve(&mut *tx, caller.account_id, id).await?;
    tx.commit().await?;
    Ok(address)
}
