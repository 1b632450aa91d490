//! A customer as the API answers it and as events carry it.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Customer, custom_fields};
use crate::id::CustomerId;
use crate::schema;
use crate::time::Timestamp;

/// The public JSON of a customer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Customer, description = "Who pays.")]
pub struct CustomerView<'a> {
    /// Its id.
    pub id: CustomerId,
    #[schema(schema_with = schema::customer)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// E-mail address.
    email: &'a str,
    /// The local part of `email` if not given, once, at creation.
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own id.
    external_id: Option<&'a str>,
    /// Checked rows, in the order sent.
    #[schema(schema_with = custom_fields::schema)]
    custom_fields: &'a serde_json::Value,
}

impl<'a> CustomerView<'a> {
    /// Renders a customer.
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
