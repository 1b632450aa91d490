//! Billing and shipping addresses of customers. The customer's row refers to the default addresses.

mod view;

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

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
    /// Rises with each change.
    pub version: i64,
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
            version: 1,
            created_at: now,
            is_default_billing: false,
            is_default_shipping: false,
        }
    }
}

/// Selects every column of an address; all queries share this list.
macro_rules! select_addresses {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Address,
            r#"SELECT a.id, a.customer_id, a.first_name, a.last_name, a.company, a.line1, a.line2, a.city, a.state,
                      a.postal_code, a.country, a.phone, a.version, a.created_at,
                      (c.default_billing_address_id IS NOT DISTINCT FROM a.id) AS "is_default_billing!",
                      (c.default_shipping_address_id IS NOT DISTINCT FROM a.id) AS "is_default_shipping!"
               FROM addresses a JOIN customers c ON c.account_id = a.account_id AND c.id = a.customer_id "# + $rest,
            $($arg),*
        )
    };
}

/// Inserts an address.
///
/// # Errors
/// [`Error::NotFound`] if the account has no such customer.
pub async fn insert(tx: &mut PgConnection, account: AccountId, address: &Address) -> Result<()> {
    let query = sqlx::query!(
        "INSERT INTO addresses (id, account_id, customer_id, first_name, last_name, company, line1, line2, city, state,
                                postal_code, country, phone, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        address.id.uuid(),
        account.uuid(),
        address.customer_id.uuid(),
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
        address.created_at,
    );
    query.execute(tx).await.map(|_| ()).map_err(|error| match db::violated_constraint(&error) {
        Some("addresses_customer") => Error::no_such("customer", address.customer_id),
        _ => error.into(),
    })
}

/// Returns an address.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: impl PgExecutor<'_>, account: AccountId, id: AddressId) -> Result<Address> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("address", id))
}

async fn find(db: impl PgExecutor<'_>, account: AccountId, id: AddressId) -> Result<Option<Address>> {
    let query = select_addresses!("WHERE a.account_id = $1 AND a.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// Updates the given fields.
///
/// # Errors
/// [`Error::NotFound`]; 422 `customerId` if it differs from the address's customer.
pub async fn update(db: &PgPool, account: AccountId, id: AddressId, change: AddressChange) -> Result<Address> {
    let mut tx = db::begin(db).await?;
    let mut address = lock(&mut tx, account, id).await?.ok_or_else(|| Error::no_such("address", id))?;
    apply(&mut address, change)?;
    address.version = save(&mut tx, account, &address).await?;
    tx.commit().await?;
    Ok(address)
}

async fn lock(tx: &mut PgConnection, account: AccountId, id: AddressId) -> Result<Option<Address>> {
    let query =
        select_addresses!("WHERE a.account_id = $1 AND a.id = $2 FOR NO KEY UPDATE OF a", account.uuid(), id.uuid());
    Ok(query.fetch_optional(tx).await?)
}

/// Returns the new version.
async fn save(tx: &mut PgConnection, account: AccountId, address: &Address) -> Result<i64> {
    let version = sqlx::query_scalar!(
        "UPDATE addresses SET first_name = $3, last_name = $4, company = $5, line1 = $6, line2 = $7, city = $8,
                state = $9, postal_code = $10, country = $11, phone = $12
         WHERE account_id = $1 AND id = $2 RETURNING version",
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
    .fetch_one(tx)
    .await?;
    Ok(version)
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

/// Deletes all addresses of a customer that is being deleted, and refers to none.
///
/// # Errors
/// Database errors only.
pub async fn delete_all(tx: &mut PgConnection, account: AccountId, customer: CustomerId) -> Result<()> {
    sqlx::query!("DELETE FROM addresses WHERE account_id = $1 AND customer_id = $2", account.uuid(), customer.uuid())
        .execute(tx)
        .await?;
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
        && find(db, account, cursor).await?.is_none_or(|address| address.customer_id != customer)
    {
        return Err(unknown_cursor());
    }
    let query = select_addresses!(
        "WHERE (a.account_id, a.customer_id, a.id) < ($1, $2, $3) AND (a.account_id, a.customer_id) >= ($1, $2)
         ORDER BY a.account_id DESC, a.customer_id DESC, a.id DESC LIMIT $4",
        account.uuid(),
        customer.uuid(),
        page.starting_after.map_or(Uuid::max(), AddressId::uuid),
        page.fetch(),
    );
    Ok(page.page(query.fetch_all(db).await?))
}
