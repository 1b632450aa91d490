//! SQL for addresses.

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::Address;
use foundation::error::Result;
use foundation::id::{AccountId, AddressId, CustomerId};

/// Selects every column of an address; all queries share this list.
macro_rules! select_addresses {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Address,
            r#"SELECT a.id, a.customer_id, a.first_name, a.last_name, a.company, a.line1, a.line2, a.city, a.state,
                      a.postal_code, a.country, a.phone, a.created_at,
                      (c.default_billing_address_id IS NOT DISTINCT FROM a.id) AS "is_default_billing!",
                      (c.default_shipping_address_id IS NOT DISTINCT FROM a.id) AS "is_default_shipping!"
               FROM addresses a JOIN customers c ON c.account_id = a.account_id AND c.id = a.customer_id "# + $rest,
            $($arg),*
        )
    };
}

pub(super) async fn insert(db: &mut PgConnection, account: AccountId, new: &Address) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO addresses (id, account_id, customer_id, first_name, last_name, company, line1, line2, city, state,
                                postal_code, country, phone, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        new.id.uuid(),
        account.uuid(),
        new.customer_id.uuid(),
        new.first_name,
        new.last_name,
        new.company,
        new.line1,
        new.line2,
        new.city,
        new.state,
        new.postal_code,
        new.country.code(),
        new.phone,
        new.created_at,
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn save(tx: &mut PgConnection, account: AccountId, address: &Address) -> Result<()> {
    sqlx::query!(
        "UPDATE addresses SET first_name = $3, last_name = $4, company = $5, line1 = $6, line2 = $7, city = $8,
                state = $9, postal_code = $10, country = $11, phone = $12
         WHERE account_id = $1 AND id = $2",
        account.uuid(),
        address.id.uuid(),
        address.first_name,
        address.last_name,
        address.company,
        address.line1,
        address.line2,
        address.city,
        address.state,
        address.postal_code,
        address.country.code(),
        address.phone,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn find(db: impl PgExecutor<'_>, account: AccountId, id: AddressId) -> Result<Option<Address>> {
    let query = select_addresses!("WHERE a.account_id = $1 AND a.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn lock(tx: &mut PgConnection, account: AccountId, id: AddressId) -> Result<Option<Address>> {
    let query =
        select_addresses!("WHERE a.account_id = $1 AND a.id = $2 FOR NO KEY UPDATE OF a", account.uuid(), id.uuid());
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn list(
    db: &PgPool,
    account: AccountId,
    customer: CustomerId,
    after: Option<AddressId>,
    limit: i64,
) -> Result<Vec<Address>> {
    let query = select_addresses!(
        "WHERE (a.account_id, a.customer_id, a.id) < ($1, $2, $3) AND (a.account_id, a.customer_id) >= ($1, $2)
         ORDER BY a.account_id DESC, a.customer_id DESC, a.id DESC LIMIT $4",
        account.uuid(),
        customer.uuid(),
        after.map_or(Uuid::max(), AddressId::uuid),
        limit,
    );
    Ok(query.fetch_all(db).await?)
}
