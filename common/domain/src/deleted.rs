//! The JSON of a deleted object: the response to its deletion, and what remains of it in events.

use serde::Serialize;
use utoipa::ToSchema;

use foundation::id::{CustomerId, PaymentMethodId, WebhookEndpointId};
use foundation::schema;

/// A deleted object in the API.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DeletedObject, description = "A deleted object.")]
pub struct DeletedView {
    /// The id that it had.
    #[schema(value_type = DeletedId)]
    pub id: String,
    /// What it was.
    #[schema(value_type = DeletedKind)]
    object: &'static str,
    /// Always `true`.
    deleted: bool,
}

impl DeletedView {
    pub fn customer(id: CustomerId) -> Self {
        Self { id: id.to_string(), object: "customer", deleted: true }
    }

    /// A detached card.
    pub fn payment_method(id: PaymentMethodId) -> Self {
        Self { id: id.to_string(), object: "payment_method", deleted: true }
    }

    pub fn webhook_endpoint(id: WebhookEndpointId) -> Self {
        Self { id: id.to_string(), object: "webhook_endpoint", deleted: true }
    }
}

schema::field_types! {
    DeletedId = schema::text("^(cus|pm|we)_[0-7][0-9A-HJKMNP-TV-Z]{25}$", "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7");
    DeletedKind = schema::enumeration(["customer", "payment_method", "webhook_endpoint"]);
}
