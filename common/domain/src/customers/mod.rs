//! Customers of a merchant. The merchant's own id of a customer (`externalId`) can be set once.

pub mod custom_fields;
mod store;
mod view;

use sqlx::{PgConnection, PgPool};

pub use custom_fields::CustomFields;
pub use view::CustomerView;

use crate::accounts::Caller;
use crate::addresses::Role;
use crate::events::{self, EventType};
use foundation::db::{self, Db, Tx};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, AddressId, CustomerId, PaymentMethodId};
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::queues;
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
    pub external_id: Option<String>,
    /// Validated rows, in the order sent.
    pub custom_fields: serde_json::Value,
    /// The card that is charged if a request names no card.
    pub default_payment_method_id: Option<PaymentMethodId>,
    pub created_at: Timestamp,
}

/// The input for a new customer.
#[derive(Debug)]
pub struct NewCustomer {
    pub email: String,
    pub name: Option<String>,
    pub phone: Option<String>,
    /// The merchant's own id.
    pub external_id: Option<String>,
    pub custom_fields: CustomFields,
}

/// The fields to update; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct CustomerChange {
    pub email: Option<String>,
    pub name: Option<String>,
    pub phone: Option<String>,
    /// The merchant's own id. `Some(None)` clears it, which is rejected if it is set.
    pub external_id: Option<Option<String>>,
    /// Replaces the whole list.
    pub custom_fields: Option<CustomFields>,
}

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
            external_id: self.external_id,
            custom_fields: self.custom_fields.into_json(),
            default_payment_method_id: None,
            created_at: now,
        }
    }
}

/// Inserts a customer and its `customer.created` event.
///
/// # Errors
/// [`Error::Conflict`] if another customer has the same `externalId`.
pub async fn insert(tx: &mut Tx, caller: &Caller, customer: &Customer, now: Timestamp) -> Result<()> {
    let view = CustomerView::new(customer, caller.livemode());
    let event = events::render(caller.livemode(), EventType::CustomerCreated, &view, now)?;
    let endpoints = store::insert_with_event(tx, caller.account_id, customer, &event).await.map_err(map_duplicate)?;
    for endpoint in endpoints {
        tx.wake(queues::WEBHOOKS, endpoint);
    }
    Ok(())
}

/// Returns a customer.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: CustomerId) -> Result<Customer> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("customer", id))
}

/// Returns a customer if it exists, within a transaction.
///
/// # Errors
/// Database errors only.
pub async fn find(db: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Option<Customer>> {
    Ok(store::find(db, account, id).await?)
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
    let mut customer =
        store::lock(&mut tx, caller.account_id, id).await?.ok_or_else(|| Error::no_such("customer", id))?;
    let changed = apply(&mut customer, change)?;
    if changed {
        store::save(&mut tx, caller.account_id, &customer).await.map_err(map_duplicate)?;
        announce(&mut tx, caller, EventType::CustomerUpdated, &customer, now).await?;
    }
    tx.commit().await?;
    Ok(customer)
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
    Ok([
        set(&mut customer.email, change.email),
        set(&mut customer.name, change.name),
        set(&mut customer.phone, change.phone.map(Some)),
        set(&mut customer.external_id, change.external_id),
        set(&mut customer.custom_fields, change.custom_fields.map(CustomFields::into_json)),
    ]
    .contains(&true))
}

async fn announce(tx: &mut Tx, caller: &Caller, kind: EventType, customer: &Customer, now: Timestamp) -> Result<()> {
    let view = CustomerView::new(customer, caller.livemode());
    events::append(tx, caller.account_id, caller.livemode(), kind, &view, now).await?;
    Ok(())
}

/// Returns a page of customers, newest first. With `external_id`, the page has at most the one customer with that id.
///
/// # Errors
/// 422 if the cursor is not a customer of the account.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    external_id: Option<&str>,
    page: PageRequest<CustomerId>,
) -> Result<Page<Customer>> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor).await?.is_none()
    {
        return Err(unknown_cursor());
    }
    let rows = match external_id {
        Some(external_id) => store::find_by_external_id(db, account, external_id, page.starting_after).await?,
        None => store::list(db, account, page.starting_after, page.fetch()).await?,
    };
    Ok(page.page(rows))
}

/// Locks a customer, to serialize changes of its default card.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Customer> {
    store::lock(tx, account, id).await?.ok_or_else(|| Error::no_such("customer", id))
}

/// Sets the default card. The customer must be locked.
///
/// # Errors
/// Database errors only.
pub async fn set_default_card(
    tx: &mut PgConnection,
    account: AccountId,
    id: CustomerId,
    card: PaymentMethodId,
) -> Result<()> {
    store::set_default_card(tx, account, id, card).await
}

/// Sets the default address for a role. This locks the customer.
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
    store::set_default_address(tx, account, id, role, address).await
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
            external_id: external_id.map(Into::into),
            custom_fields: serde_json::json!([]),
            default_payment_method_id: None,
            created_at: now,
        }
    }

    fn external_id(value: Option<&str>) -> CustomerChange {
        CustomerChange { external_id: Some(value.map(Into::into)), ..CustomerChange::default() }
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
