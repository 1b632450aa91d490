//! Customers of a merchant. The merchant's own id of a customer (`externalId`) can be set once.

pub mod custom_fields;
mod deletion;
mod list;
mod view;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use custom_fields::CustomFields;
pub use deletion::{erase, lock_for_deletion};
pub use list::{Filter, list};
pub use view::CustomerView;

use crate::accounts::Caller;
use crate::addresses::Role;
use crate::events::{self, EventType};
use foundation::db::{self, Db, Tx};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, AddressId, CustomerId, PaymentMethodId};
use foundation::merchant_data::{ExternalId, MerchantData, Metadata, MetadataChange};
use foundation::time::Timestamp;

/// Maximum number of characters of an e-mail address, name, phone number or external id.
pub const MAX_TEXT: usize = 255;

/// A customer as stored.
#[derive(Clone, Debug)]
pub struct Customer {
    pub id: CustomerId,
    pub email: String,
    /// Defaults to the local part of the e-mail address.
    pub name: String,
    pub phone: Option<String>,
    /// The merchant's own id. Cannot be changed once set.
    pub external_id: Option<ExternalId>,
    pub metadata: Option<Metadata>,
    /// Validated rows, in the order sent.
    pub custom_fields: serde_json::Value,
    /// The card that is charged if a request names no card.
    pub default_payment_method_id: Option<PaymentMethodId>,
    /// Rises with each change that the API shows.
    pub version: i64,
    pub created_at: Timestamp,
}

/// The input for a new customer.
#[derive(Debug)]
pub struct NewCustomer {
    pub email: String,
    pub name: Option<String>,
    pub phone: Option<String>,
    pub merchant_data: MerchantData,
    pub custom_fields: CustomFields,
}

/// The fields to update; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct CustomerChange {
    pub email: Option<String>,
    pub name: Option<String>,
    pub phone: Option<String>,
    /// The merchant's own id. `Some(None)` clears it, which is rejected if it is set.
    pub external_id: Option<Option<ExternalId>>,
    pub metadata: Option<MetadataChange>,
    /// Replaces the whole list.
    pub custom_fields: Option<CustomFields>,
}

/// Selects every column of customers that are not deleted; all queries share this list.
macro_rules! select_customers {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Customer,
            "SELECT id, email, name, phone, external_id, custom_fields, default_payment_method_id, metadata, version,
                    created_at
             FROM customers WHERE deleted_at IS NULL AND " + $rest,
            $($arg),*
        )
    };
}

use select_customers;

fn map_duplicate(error: sqlx::Error) -> Error {
    match db::violated_constraint(&error) {
        Some("customers_external_id") => Error::conflict("another customer has this externalId"),
        _ => error.into(),
    }
}

/// Returns the part before the last `@`; an earlier `@` belongs to a quoted local part.
fn local_part(email: &str) -> &str {
    email.rsplit_once('@').map_or(email, |(local, _)| local)
}

impl NewCustomer {
    /// Builds the customer with a new id, without storing it.
    pub fn into_customer(self, now: Timestamp) -> Customer {
        Customer {
            id: CustomerId::new(now),
            name: self.name.unwrap_or_else(|| local_part(&self.email).to_owned()),
            email: self.email,
            phone: self.phone,
            external_id: self.merchant_data.external_id,
            metadata: self.merchant_data.metadata,
            custom_fields: self.custom_fields.into_json(),
            default_payment_method_id: None,
            version: 1,
            created_at: now,
        }
    }
}

/// Inserts a customer and its `customer.created` event.
///
/// # Errors
/// [`Error::Conflict`] if another customer has the same `externalId`.
pub async fn insert(tx: &mut Tx, caller: &Caller, customer: &Customer, now: Timestamp) -> Result<()> {
    let inserted = sqlx::query!(
        "INSERT INTO customers (id, account_id, email, name, phone, external_id, custom_fields, created_at, metadata)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        customer.id.uuid(),
        caller.account_id.uuid(),
        customer.email,
        customer.name,
        customer.phone,
        customer.external_id.as_deref(),
        customer.custom_fields,
        customer.created_at,
        customer.metadata.as_ref() as Option<&Metadata>,
    );
    inserted.execute(&mut **tx).await.map_err(map_duplicate)?;
    announce(tx, caller, EventType::CustomerCreated, customer, now).await
}

/// Returns a customer.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: CustomerId) -> Result<Customer> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("customer", id))
}

/// Returns a customer if it exists, within a transaction.
///
/// # Errors
/// Database errors only.
pub async fn find(db: impl PgExecutor<'_>, account: AccountId, id: CustomerId) -> Result<Option<Customer>> {
    let query = select_customers!("account_id = $1 AND id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// Updates the given fields. If no value changes, no event is created.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if `externalId` is already set to another value, or another customer has
/// it.
pub async fn update(
    db: &Db,
    caller: &Caller,
    id: CustomerId,
    change: CustomerChange,
    now: Timestamp,
) -> Result<Customer> {
    let mut tx = db.begin().await?;
    let mut customer = lock(&mut tx, caller.account_id, id).await?;
    let changed = apply(&mut customer, change)?;
    if changed {
        customer.version = save(&mut tx, caller.account_id, &customer).await.map_err(map_duplicate)?;
        announce(&mut tx, caller, EventType::CustomerUpdated, &customer, now).await?;
    }
    tx.commit().await?;
    Ok(customer)
}

/// Returns the new version.
async fn save(tx: &mut PgConnection, account: AccountId, customer: &Customer) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        "UPDATE customers SET email = $3, name = $4, phone = $5, external_id = $6, custom_fields = $7, metadata = $8
         WHERE account_id = $1 AND id = $2 RETURNING version",
        account.uuid(),
        customer.id.uuid(),
        customer.email,
        customer.name,
        customer.phone,
        customer.external_id.as_deref(),
        customer.custom_fields,
        customer.metadata.as_ref() as Option<&Metadata>,
    )
    .fetch_one(tx)
    .await
}

fn apply(customer: &mut Customer, change: CustomerChange) -> Result<bool> {
    fn set<T: PartialEq>(field: &mut T, value: Option<T>) -> bool {
        value.is_some_and(|value| {
            let differs = *field != value;
            *field = value;
            differs
        })
    }
    match (&customer.external_id, &change.external_id) {
        (Some(set), Some(sent)) if sent.as_ref() != Some(set) => {
            return Err(Error::conflict("externalId is set and cannot be changed"));
        }
        _ => {}
    }
    let metadata = change.metadata.map(|change| change.apply(customer.metadata.clone())).transpose()?;
    Ok([
        set(&mut customer.email, change.email),
        set(&mut customer.name, change.name),
        set(&mut customer.phone, change.phone.map(Some)),
        set(&mut customer.external_id, change.external_id),
        set(&mut customer.metadata, metadata),
        set(&mut customer.custom_fields, change.custom_fields.map(CustomFields::into_json)),
    ]
    .contains(&true))
}

async fn announce(tx: &mut Tx, caller: &Caller, kind: EventType, customer: &Customer, now: Timestamp) -> Result<()> {
    let view = CustomerView::new(customer, caller.livemode());
    events::append(tx, caller.account_id, caller.livemode(), kind, &view, now).await?;
    Ok(())
}

/// Locks a customer, to serialize changes of its default card.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Customer> {
    find_locked(tx, account, id).await?.ok_or_else(|| Error::no_such("customer", id))
}

/// As [`lock`]; `None` if the customer is deleted, which an open invoice may outlive.
///
/// # Errors
/// Database errors only.
pub async fn find_locked(tx: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Option<Customer>> {
    let query = select_customers!("account_id = $1 AND id = $2 FOR NO KEY UPDATE", account.uuid(), id.uuid());
    Ok(query.fetch_optional(tx).await?)
}

/// Sets the default card, or none. The customer must be locked.
///
/// # Errors
/// Database errors only.
pub async fn set_default_card(
    tx: &mut PgConnection,
    account: AccountId,
    id: CustomerId,
    card: Option<PaymentMethodId>,
) -> Result<()> {
    sqlx::query!(
        "UPDATE customers SET default_payment_method_id = $3 WHERE account_id = $1 AND id = $2",
        account.uuid(),
        id.uuid(),
        card.map(PaymentMethodId::uuid)
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Sets the default address for a role, unless the customer is deleted. This locks the customer.
///
/// # Errors
/// Database errors only.
pub async fn set_default_address(
    tx: &mut PgConnection,
    account: AccountId,
    id: CustomerId,
    role: Role,
    address: AddressId,
) -> Result<()> {
    let query = match role {
        Role::Billing => sqlx::query!(
            "UPDATE customers SET default_billing_address_id = $3
             WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL",
            account.uuid(),
            id.uuid(),
            address.uuid()
        ),
        Role::Shipping => sqlx::query!(
            "UPDATE customers SET default_shipping_address_id = $3
             WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL",
            account.uuid(),
            id.uuid(),
            address.uuid()
        ),
    };
    query.execute(tx).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn customer(external_id: Option<&str>) -> Customer {
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        Customer {
            id: CustomerId::new(now),
            email: "ada@example.com".into(),
            name: "ada".into(),
            phone: None,
            external_id: external_id.and_then(ExternalId::parse),
            metadata: None,
            custom_fields: serde_json::json!([]),
            default_payment_method_id: None,
            version: 1,
            created_at: now,
        }
    }

    fn external_id(value: Option<&str>) -> CustomerChange {
        CustomerChange { external_id: Some(value.and_then(ExternalId::parse)), ..CustomerChange::default() }
    }

    #[test]
    fn an_external_id_can_be_set_once() {
        assert!(apply(&mut customer(None), external_id(Some("a"))).expect("first write"));
        assert!(!apply(&mut customer(Some("a")), external_id(Some("a"))).expect("the same"));
        assert!(!apply(&mut customer(None), external_id(None)).expect("nothing to clear"));
        assert!(matches!(apply(&mut customer(Some("a")), external_id(Some("b"))), Err(Error::Conflict(_))));
        assert!(matches!(apply(&mut customer(Some("a")), external_id(None)), Err(Error::Conflict(_))));
    }
}
