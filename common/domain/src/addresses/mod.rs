//! Billing and shipping addresses of customers. The customer's row refers to the default addresses.

mod store;
mod view;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use view::AddressView;

use foundation::country::Country;
use foundation::db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, AddressId, CustomerId};
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::time::Timestamp;

/// The purpose of a default address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Billing,
    Shipping,
}

/// An address as stored.
#[derive(Clone, Debug)]
pub struct Address {
    pub id: AddressId,
    /// Never changes.
    pub customer_id: CustomerId,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    pub company: Option<String>,
    /// Street and number, or the local equivalent.
    pub line1: String,
    /// Apartment, suite or floor.
    pub line2: Option<String>,
    pub city: Option<String>,
    /// State, province or region.
    pub state: Option<String>,
    /// The format depends on the country and is not checked.
    pub postal_code: Option<String>,
    pub country: Country,
    pub phone: Option<String>,
    pub created_at: Timestamp,
    pub is_default_billing: bool,
    pub is_default_shipping: bool,
}

/// The optional fields of an address.
#[derive(Debug)]
pub struct Details {
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    pub company: Option<String>,
    /// Apartment, suite or floor.
    pub line2: Option<String>,
    pub city: Option<String>,
    /// State, province or region.
    pub state: Option<String>,
    pub postal_code: Option<String>,
    pub phone: Option<String>,
}

/// The input for a new address.
#[derive(Debug)]
pub struct NewAddress {
    pub customer_id: CustomerId,
    pub line1: String,
    pub country: Country,
    pub details: Details,
}

/// The fields to update; `None` leaves a field unchanged.
#[derive(Debug)]
pub struct AddressChange {
    /// As sent. An id other than the address's customer is rejected.
    pub customer_id: Option<String>,
    pub line1: Option<String>,
    pub country: Option<Country>,
    pub details: Details,
}

impl NewAddress {
    /// Builds the address with a new id, without storing it. It is not a default address.
    pub fn into_address(self, now: Timestamp) -> Address {
        let Self { customer_id, line1, country, details } = self;
        Address {
            id: AddressId::new(now),
            customer_id,
            first_name: details.first_name,
            last_name: details.last_name,
            company: details.company,
            line1,
            line2: details.line2,
            city: details.city,
            state: details.state,
            postal_code: details.postal_code,
            country,
            phone: details.phone,
            created_at: now,
            is_default_billing: false,
            is_default_shipping: false,
        }
    }
}

/// Inserts an address.
///
/// # Errors
/// [`Error::NotFound`] if the account has no such customer.
pub async fn insert(tx: &mut PgConnection, account: AccountId, address: &Address) -> Result<()> {
    store::insert(tx, account, address).await.map_err(|error| match db::violated_constraint(&error) {
        Some("addresses_customer") => Error::no_such("customer", address.customer_id),
        _ => error.into(),
    })
}

/// Returns an address.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: impl PgExecutor<'_>, account: AccountId, id: AddressId) -> Result<Address> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("address", id))
}

/// Updates the given fields.
///
/// # Errors
/// [`Error::NotFound`]; 422 `customerId` if it differs from the address's customer.
pub async fn update(db: &PgPool, account: AccountId, id: AddressId, change: AddressChange) -> Result<Address> {
    let mut tx = db::begin(db).await?;
    let mut address = store::lock(&mut tx, account, id).await?.ok_or_else(|| Error::no_such("address", id))?;
    apply(&mut address, change)?;
    store::save(&mut tx, account, &address).await?;
    db::commit(tx).await?;
    Ok(address)
}

fn apply(address: &mut Address, change: AddressChange) -> Result<()> {
    fn set<T>(field: &mut T, value: Option<T>) {
        if let Some(value) = value {
            *field = value;
        }
    }
    // An id has only one text form, so comparing texts is enough.
    if change.customer_id.is_some_and(|sent| sent != address.customer_id.to_string()) {
        return Err(Error::invalid("customerId", "customerId of an address cannot be changed"));
    }
    let details = change.details;
    set(&mut address.line1, change.line1);
    set(&mut address.country, change.country);
    set(&mut address.first_name, details.first_name.map(Some));
    set(&mut address.last_name, details.last_name.map(Some));
    set(&mut address.company, details.company.map(Some));
    set(&mut address.line2, details.line2.map(Some));
    set(&mut address.city, details.city.map(Some));
    set(&mut address.state, details.state.map(Some));
    set(&mut address.postal_code, details.postal_code.map(Some));
    set(&mut address.phone, details.phone.map(Some));
    Ok(())
}

/// Returns a page of a customer's addresses, newest first.
///
/// # Errors
/// 422 if the cursor is not an address of the customer.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    customer: CustomerId,
    page: PageRequest<AddressId>,
) -> Result<Page<Address>> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor).await?.is_none_or(|address| address.customer_id != customer)
    {
        return Err(unknown_cursor());
    }
    Ok(page.page(store::list(db, account, customer, page.starting_after, page.fetch()).await?))
}
