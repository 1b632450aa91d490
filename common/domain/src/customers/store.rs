//! SQL for customers.

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::Customer;
use crate::addresses::Role;
use crate::events::Event;
use foundation::error::Result;
use foundation::id::{AccountId, AddressId, CustomerId, PaymentMethodId};

/// Selects every column of a customer; all queries share this list.
macro_rules! select_customers {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Customer,
            "SELECT id, email, name, phone, external_id, custom_fields, default_payment_method_id, created_at
             FROM customers " + $rest,
            $($arg),*
        )
    };
}

/// Inserts a customer and its event. Returns the webhook endpoints to notify.
pub(super) async fn insert_with_event(
    tx: &mut PgConnection,
    account: AccountId,
    new: &Customer,
    event: &Event,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"WITH customer AS (
               INSERT INTO customers (id, account_id, email, name, phone, external_id, custom_fields, created_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id)
           SELECT endpoint AS "endpoint!" FROM customer, emit_event($9, $2, $10, $11, $12) AS endpoint"#,
        new.id.uuid(),
        account.uuid(),
        new.email,
        new.name,
        new.phone,
        new.external_id,
        new.custom_fields,
        new.created_at,
        event.id.uuid(),
        event.kind.name(),
        event.payload,
        event.at,
    )
    .fetch_all(tx)
    .await
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

pub(super) async fn find(
    db: impl PgExecutor<'_>,
    account: AccountId,
    id: CustomerId,
) -> Result<Option<Customer>, sqlx::Error> {
    let query = select_customers!("WHERE account_id = $1 AND id = $2", account.uuid(), id.uuid());
    query.fetch_optional(db).await
}

pub(super) async fn lock(tx: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Option<Customer>> {
    let query = select_customers!("WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE", account.uuid(), id.uuid());
    Ok(query.fetch_optional(tx).await?)
}

pub(super) async fn list(
    db: &PgPool,
    account: AccountId,
    after: Option<CustomerId>,
    limit: i64,
) -> Result<Vec<Customer>> {
    let query = select_customers!(
        "WHERE (account_id, id) < ($1, $2) AND account_id >= $1 ORDER BY account_id DESC, id DESC LIMIT $3",
        account.uuid(),
        after.map_or(Uuid::max(), CustomerId::uuid),
        limit,
    );
    Ok(query.fetch_all(db).await?)
}

/// Returns the customer with this external id, unless it is on an earlier page than the cursor.
pub(super) async fn find_by_external_id(
    db: &PgPool,
    account: AccountId,
    external_id: &str,
    after: Option<CustomerId>,
) -> Result<Vec<Customer>> {
    let query = select_customers!(
        "WHERE account_id = $1 AND external_id = $2 AND id < $3",
        account.uuid(),
        external_id,
        after.map_or(Uuid::max(), CustomerId::uuid),
    );
    Ok(query.fetch_all(db).await?)
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

pub(super) async fn set_default_address(
    tx: &mut PgConnection,
    account: AccountId,
    id: CustomerId,
    role: Role,
    address: AddressId,
) -> Result<()> {
    let query = match role {
        Role::Billing => sqlx::query!(
            "UPDATE customers SET default_billing_address_id = $3 WHERE account_id = $1 AND id = $2",
            account.uuid(),
            id.uuid(),
            address.uuid()
        ),
        Role::Shipping => sqlx::query!(
            "UPDATE customers SET default_shipping_address_id = $3 WHERE account_id = $1 AND id = $2",
            account.uuid(),
            id.uuid(),
            address.uuid()
        ),
    };
    query.execute(tx).await?;
    Ok(())
}
