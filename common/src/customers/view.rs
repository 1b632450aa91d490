//! A customer as the API answers it and as events carry it.

use serde::Serialize;

use super::Customer;
use crate::id::CustomerId;
use crate::time::Timestamp;

/// The public JSON of a customer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomerView<'a> {
    /// Its id.
    pub id: CustomerId,
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    email: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
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
