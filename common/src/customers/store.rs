//! The SQL of customers.

use sqlx::{PgConnection, PgPool};

use super::Customer;
use crate::error::Result;
use crate::id::{AccountId, CustomerId, PaymentMethodId};

pub(super) async fn insert(tx: &mut PgConnection, account: AccountId, new: &Customer) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO customers (id, account_id, email, name, phone, external_id, custom_fields, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        new.id.uuid(),
        account.uuid(),
        new.email,
        new.name,
        new.phone,
        new.external_id,
        new.custom_fields,
        new.created_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn save(tx: &mut PgConnection, account: AccountId, customer: &Customer) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE customers SET email = $3, name = $4, phone = $5, external_id = $6, custom_fields = $7
         WHERE account_id = $1 AND id = $2",
        account.uuid(),
        customer.id.uuid(),
        customer.email,
        customer.name,
        customer.phone,
        customer.external_id,
        customer.custom_fields,
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(super) async fn find(db: &PgPool, account: AccountId, id: CustomerId) -> Result<Option<Customer>> {
    let row = sqlx::query_as!(
        Customer,
        "SELECT id, email, name, phone, external_id, custom_fields, default_payment_method_id, created_at
         FROM customers WHERE account_id = $1 AND id = $2",
        account.uuid(),
        id.uuid()
    )
    .fetch_optional(db)
    .await?;
    Ok(row)
}

pub(super) async fn lock(tx: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Option<Customer>> {
    let row = sqlx::query_as!(
        Customer,
        "SELECT id, email, name, phone, external_id, custom_fields, default_payment_method_id, created_at
         FROM customers WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE",
        account.uuid(),
        id.uuid()
    )
    .fetch_optional(tx)
    .await?;
    Ok(row)
}

pub(super) async fn list(
    db: &PgPool,
    account: AccountId,
    external_id: Option<&str>,
    after: Option<CustomerId>,
    limit: i64,
) -> Result<Vec<Customer>> {
    let rows = sqlx::query_as!(
        Customer,
        "SELECT id, email, name, phone, external_id, custom_fields, default_payment_method_id, created_at
         FROM customers
         WHERE account_id = $1 AND ($2::text IS NULL OR external_id = $2) AND ($3::uuid IS NULL OR id < $3)
         ORDER BY id DESC LIMIT $4",
        account.uuid(),
        external_id,
        after.map(CustomerId::uuid),
        limit,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(super) async fn set_default_card(
    tx: &mut PgConnection,
    account: AccountId,
    id: CustomerId,
    card: PaymentMethodId,
) -> Result<()> {
    sqlx::query!(
        "UPDATE customers SET default_payment_method_id = $3 WHERE account_id = $1 AND id = $2",
        account.uuid(),
        id.uuid(),
        card.uuid()
    )
    .execute(tx)
    .await?;
    Ok(())
}
