//! Deleting a customer: its row stays, for payments and invoices to refer to, and holds nothing about a person.

use sqlx::PgConnection;

use super::{Customer, select_customers};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId};
use foundation::time::Timestamp;

/// Locks a customer `FOR UPDATE`: an insert that refers to the customer takes a key-share lock on its row, with which a
/// weaker lock would not conflict.
///
/// # Errors
/// [`Error::NotFound`], also if it is deleted.
pub async fn lock_for_deletion(tx: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Customer> {
    let query = select_customers!("account_id = $1 AND id = $2 FOR UPDATE", account.uuid(), id.uuid());
    query.fetch_optional(tx).await?.ok_or_else(|| Error::no_such("customer", id))
}

/// Erases a customer that [`lock_for_deletion`] has locked.
///
/// # Errors
/// Database errors only.
pub async fn erase(tx: &mut PgConnection, account: AccountId, id: CustomerId, now: Timestamp) -> Result<()> {
    sqlx::query!(
        "UPDATE customers SET deleted_at = $3, email = '', name = '', phone = NULL, external_id = NULL,
                custom_fields = '[]', metadata = NULL, default_payment_method_id = NULL,
                default_billing_address_id = NULL, default_shipping_address_id = NULL
         WHERE account_id = $1 AND id = $2",
        account.uuid(),
        id.uuid(),
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}
