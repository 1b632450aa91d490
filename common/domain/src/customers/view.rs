//! The JSON of a customer in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Customer, custom_fields};
use foundation::id::CustomerId;
use foundation::merchant_data::{ExternalId, Metadata};
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
    #[schema(schema_with = schema::version)]
    version: i64,
    /// The e-mail address, as sent.
    email: &'a str,
    /// Defaults at creation to the local part of `email`.
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The telephone number, as sent.
    phone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own id of the customer.
    external_id: Option<&'a ExternalId>,
    /// The rows, in the order sent.
    #[schema(value_type = custom_fields::Rows)]
    custom_fields: &'a serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

impl<'a> CustomerView<'a> {
    pub fn new(customer: &'a Customer, livemode: bool) -> Self {
        Self {
            id: customer.id,
            object: "customer",
            livemode,
            created_at: customer.created_at,
            version: customer.version,
            email: &customer.email,
            name: &customer.name,
            phone: customer.phone.as_deref(),
            external_id: customer.external_id.as_ref(),
            custom_fields: &customer.custom_fields,
            metadata: customer.metadata.as_ref(),
        }
    }
}
