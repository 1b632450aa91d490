//! The JSON of an address in API responses.

use serde::Serialize;
use utoipa::ToSchema;

use super::Address;
use foundation::country::Country;
use foundation::id::{AddressId, CustomerId};
use foundation::schema;
use foundation::time::Timestamp;

/// An address in the API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Address, description = "A billing or shipping address of a customer.")]
pub struct AddressView<'a> {
    pub id: AddressId,
    #[schema(schema_with = schema::address)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    #[schema(schema_with = schema::version)]
    version: i64,
    /// The customer who has the address.
    customer_id: CustomerId,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The first name of the recipient.
    first_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The last name of the recipient.
    last_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The company of the recipient.
    company: Option<&'a str>,
    /// The street address.
    line1: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Apartment, floor and the like.
    line2: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The city or town.
    city: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// State, province or region.
    state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The postal code, as sent.
    postal_code: Option<&'a str>,
    /// The ISO 3166-1 alpha-2 code of the country.
    country: Country,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The telephone number, as sent.
    phone: Option<&'a str>,
    /// Whether this is the customer's default billing address.
    is_default_billing: bool,
    /// Whether this is the customer's default shipping address.
    is_default_shipping: bool,
}

impl<'a> AddressView<'a> {
    pub fn new(address: &'a Address, livemode: bool) -> Self {
        Self {
            id: address.id,
            object: "address",
            livemode,
            created_at: address.created_at,
            version: address.version,
            customer_id: address.customer_id,
            first_name: address.first_name.as_deref(),
            last_name: address.last_name.as_deref(),
            company: address.company.as_deref(),
            line1: &address.line1,
            line2: address.line2.as_deref(),
            city: address.city.as_deref(),
            state: address.state.as_deref(),
            postal_code: address.postal_code.as_deref(),
            country: address.country,
            phone: address.phone.as_deref(),
            is_default_billing: address.is_default_billing,
            is_default_shipping: address.is_default_shipping,
        }
    }
}
