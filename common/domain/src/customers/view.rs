//! The JSON of a customer in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Customer, custom_fields};
use foundation::id::CustomerId;
use foundation::schema;
use foundation::time::Timestamp;

/// A customer in the API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Customer, description = "A customer of the merchant.")]
pub struct CustomerView<'a> {
    pub id: CustomerId,
    #[schema(schema_with = schema::customer)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    email: &'a str,
    /// Defaults at creation to the local part of `email`.
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own id of the customer.
    external_id: Option<&'a str>,
    /// The rows, in the order sent.
    #[schema(schema_with = custom_fields::schema)]
    custom_fields: &'a serde_json::Value,
}

impl<'a> CustomerView<'a> {
    pub fn new(customer: &'a Customer, livemode: bool) -> Self {
        Self {
            id: customer.id,
            object: "customer",
            livemode,
            created_at: customer.created_at,
            email: &customer.email,
            name: &customer.name,
            phone: customer.phone.as_deref(),
            external_id: customer.external_id.as_deref(),
            custom_fields: &customer.custom_fields,
        }
    }
}
