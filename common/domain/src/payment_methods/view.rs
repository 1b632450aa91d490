//! The JSON of a saved card in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;

use super::{PaymentMethod, Status};
use crate::accounts::Mode;
use foundation::id::{CustomerId, PaymentMethodId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::schema;
use foundation::time::Timestamp;

/// A saved card in the API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PaymentMethod, description = "A saved card. Its brand, number and expiry date are present once the provider has returned them.")]
pub struct PaymentMethodView<'a> {
    pub id: PaymentMethodId,
    #[schema(schema_with = schema::payment_method)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    #[schema(schema_with = schema::version)]
    version: i64,
    /// The customer who owns the card.
    customer_id: CustomerId,
    /// The kind of payment method.
    #[serde(rename = "type")]
    #[schema(value_type = Kind)]
    kind: &'static str,
    /// Whether the provider has stored the card:
    /// - `processing`: its response is not known yet.
    /// - `active`: the card is stored and can be charged.
    /// - `failed`: the provider refused to store it. Final.
    #[schema(value_type = Status)]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    brand: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::last4)]
    last4: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::month)]
    exp_month: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::year)]
    exp_year: Option<i16>,
    /// Whether this card is charged if a request names no card.
    is_default: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a ExternalId>,
}

schema::field_types! { Kind = schema::enumeration(["card"]); }
schema::schema_is!(Status, schema::enumeration([Status::Processing, Status::Active, Status::Failed].map(Status::name)));

impl<'a> PaymentMethodView<'a> {
    pub fn new(card: &'a PaymentMethod) -> Self {
        Self {
            id: card.id,
            object: "payment_method",
            livemode: card.mode == Mode::Live,
            created_at: card.created_at,
            version: card.version,
            customer_id: card.customer_id,
            kind: "card",
            status: card.status.name(),
            brand: card.brand.as_deref(),
            last4: card.last4.as_deref(),
            exp_month: card.exp_month,
            exp_year: card.exp_year,
            is_default: card.is_default,
            metadata: card.metadata.as_ref(),
            external_id: card.external_id.as_ref(),
        }
    }
}
