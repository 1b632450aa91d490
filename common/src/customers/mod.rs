//! Customers: who pays. Their own id at the merchant is written once; their custom fields are checked row by row.

pub mod custom_fields;
mod store;
mod view;

use sqlx::{PgConnection, PgPool};

pub use custom_fields::CustomFields;
pub use view::CustomerView;

use crate::accounts::Caller;
use crate::addresses::Role;
use crate::db::{self, Db, Tx};
use crate::error::{Error, Result};
use crate::events::{self, EventType};
use crate::id::{AccountId, AddressId, CustomerId, PaymentMethodId};
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::queues;
use crate::time::Timestamp;

/// Characters of an e-mail address, name, phone or external id at most.
pub const MAX_TEXT: usize = 255;

/// A customer as stored.
#[derive(Clone, Debug)]
pub struct Customer {
    /// Its id.
    pub id: CustomerId,
    /// E-mail address.
    pub email: String,
    /// Name; at first the local part of the e-mail address.
    pub name: String,
    /// Phone number.
    pub phone: Option<String>,
    /// The merchant's own id, once set.
    pub external_id: Option<String>,
    /// Checked rows, in the order sent.
    pub custom_fields: serde_json::Value,
    /// The card that is charged when a request names none.
    pub default_payment_method_id: Option<PaymentMethodId>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A customer to be made.
#[derive(Debug)]
pub struct NewCustomer {
    /// E-mail address.
    pub email: String,
    /// Name, if given.
    pub name: Option<String>,
    /// Phone number, if given.
    pub phone: Option<String>,
    /// The merchant's own id, if given.
    pub external_id: Option<String>,
    /// Custom fields; none is an empty list.
    pub custom_fields: CustomFields,
}

/// What an update changes; `None` changes nothing.
#[derive(Debug, Default)]
pub struct CustomerChange {
    /// E-mail address.
    pub email: Option<String>,
    /// Name.
    pub name: Option<String>,
    /// Phone number.
    pub phone: Option<String>,
    /// The merchant's own id: `Some(None)` asks to clear it, which only an unset one bears.
    pub external_id: Option<Option<String>>,
    /// Replaces the whole list.
    pub custom_fields: Option<CustomFields>,
}

fn taken(error: sqlx::Error) -> Error {
    match db::violated(&error) {
        Some("customers_external_id") => Error::conflict("another customer has this externalId"),
        _ => error.into(),
    }
}

/// What stands before the last `@`: an earlier one is part of a quoted name.
fn local_part(email: &str) -> &str {
    email.rsplit_once('@').map_or(email, |(local, _)| local)
}

impl NewCustomer {
    /// The customer that it makes, under an id of its own; nothing is written yet.
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

/// Writes a customer, with its event.
///
/// # Errors
/// [`Error::Conflict`] if another customer has the externalId.
pub async fn insert(tx: &mut Tx, caller: &Caller, customer: &Customer, now: Timestamp) -> Result<()> {
    let view = CustomerView::new(customer, caller.livemode());
    let event = events::render(caller.livemode(), EventType::CustomerCreated, &view, now)?;
    let told = store::insert_with_event(tx, caller.account_id, customer, &event).await.map_err(taken)?;
    for endpoint in told {
        tx.wake(queues::WEBHOOKS, endpoint);
    }
    Ok(())
}

/// One customer.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: &PgPool, account: AccountId, id: CustomerId) -> Result<Customer> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("customer", id))
}

/// The same within a transaction, if there is one.
///
/// # Errors
/// Only the database's.
pub async fn find(db: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Option<Customer>> {
    Ok(store::find(db, account, id).await?)
}

/// Changes what is named, and nothing else. A change that changes nothing makes no event.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for an externalId that is set and differs, or that another customer has.
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
        store::save(&mut tx, caller.account_id, &customer).await.map_err(taken)?;
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

/// A page of customers, newest first; with an `external_id`, the one that has it, or none.
///
/// # Errors
/// 422 for a cursor that names no customer of the account.
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
        Some(external_id) => store::with_external_id(db, account, external_id, page.starting_after).await?,
        None => store::list(db, account, page.starting_after, page.fetch()).await?,
    };
    Ok(page.page(rows))
}

/// Locks a customer, so that its default card is decided by one request at a time.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Customer> {
    store::lock(tx, account, id).await?.ok_or_else(|| Error::no_such("customer", id))
}

/// Makes a card the default one. The customer is locked before.
///
/// # Errors
/// Only the database's.
pub async fn set_default_card(
    tx: &mut PgConnection,
    account: AccountId,
    id: CustomerId,
    card: PaymentMethodId,
) -> Result<()> {
    store::set_default_card(tx, account, id, card).await
}

/// Makes an address the default one in this role, in place of the one that was. The customer is locked by it.
///
/// # Errors
/// Only the database's.
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
    fn an_external_id_is_written_once() {
        assert!(apply(&mut customer(None), external_id(Some("a"))).expect("first write"));
        assert!(!apply(&mut customer(Some("a")), external_id(Some("a"))).expect("the same"));
        assert!(!apply(&mut customer(None), external_id(None)).expect("nothing to clear"));
        assert!(matches!(apply(&mut customer(Some("a")), external_id(Some("b"))), Err(Error::Conflict(_))));
        assert!(matches!(apply(&mut customer(Some("a")), external_id(None)), Err(Error::Conflict(_))));
    }
}
