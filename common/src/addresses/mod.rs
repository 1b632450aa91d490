//! Addresses: where a customer is billed or receives. Which ones are the defaults is a fact of their customer.

mod store;
mod view;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use view::AddressView;

use crate::country::Country;
use crate::db;
use crate::error::{Error, Result};
use crate::id::{AccountId, AddressId, CustomerId};
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::time::Timestamp;

/// What a default address is the default for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Where the customer is billed.
    Billing,
    /// Where the customer receives.
    Shipping,
}

/// An address as stored.
#[derive(Clone, Debug)]
pub struct Address {
    /// Its id.
    pub id: AddressId,
    /// Whose it is, for good.
    pub customer_id: CustomerId,
    /// Given name.
    pub first_name: Option<String>,
    /// Family name.
    pub last_name: Option<String>,
    /// Company.
    pub company: Option<String>,
    /// Street and number, or what stands for them.
    pub line1: String,
    /// Flat, floor and the like.
    pub line2: Option<String>,
    /// City.
    pub city: Option<String>,
    /// State, province or region.
    pub state: Option<String>,
    /// Postal code, in whatever form its country has.
    pub postal_code: Option<String>,
    /// Country.
    pub country: Country,
    /// Phone number.
    pub phone: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whether its customer is billed here unless something else is said.
    pub is_default_billing: bool,
    /// Whether its customer receives here unless something else is said.
    pub is_default_shipping: bool,
}

/// What of an address may be left out.
#[derive(Debug)]
pub struct Details {
    /// Given name.
    pub first_name: Option<String>,
    /// Family name.
    pub last_name: Option<String>,
    /// Company.
    pub company: Option<String>,
    /// Flat, floor and the like.
    pub line2: Option<String>,
    /// City.
    pub city: Option<String>,
    /// State, province or region.
    pub state: Option<String>,
    /// Postal code.
    pub postal_code: Option<String>,
    /// Phone number.
    pub phone: Option<String>,
}

/// An address to be made.
#[derive(Debug)]
pub struct NewAddress {
    /// Whose it is.
    pub customer_id: CustomerId,
    /// Street and number.
    pub line1: String,
    /// Country.
    pub country: Country,
    /// The rest.
    pub details: Details,
}

/// What an update changes; `None` changes nothing.
#[derive(Debug)]
pub struct AddressChange {
    /// As sent: another customer than the address has is refused.
    pub customer_id: Option<String>,
    /// Street and number.
    pub line1: Option<String>,
    /// Country.
    pub country: Option<Country>,
    /// The rest.
    pub details: Details,
}

impl NewAddress {
    /// The address that it makes, under an id of its own; nothing is written yet. It is the default for nothing until it is made so.
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

/// Writes an address.
///
/// # Errors
/// [`Error::NotFound`] for an unknown customer, another account's too.
pub async fn insert(tx: &mut PgConnection, account: AccountId, address: &Address) -> Result<()> {
    store::insert(tx, account, address).await.map_err(|error| match db::violated(&error) {
        Some("addresses_customer") => Error::no_such("customer", address.customer_id),
        _ => error.into(),
    })
}

/// One address.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: impl PgExecutor<'_>, account: AccountId, id: AddressId) -> Result<Address> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("address", id))
}

/// Changes what is named, and nothing else.
///
/// # Errors
/// [`Error::NotFound`]; 422 `customerId` for another customer than the address has.
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
    // An id has one spelling, so texts that differ name another customer or none.
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

/// A page of a customer's addresses, newest first.
///
/// # Errors
/// 422 for a cursor that names no address of the customer.
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
