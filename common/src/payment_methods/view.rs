//! A saved card as the API answers it and as events carry it.

use serde::Serialize;
use utoipa::ToSchema;

use super::{PaymentMethod, Status};
use crate::accounts::Mode;
use crate::id::{CustomerId, PaymentMethodId};
use crate::schema;
use crate::time::Timestamp;

/// The public JSON of a saved card.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PaymentMethod, description = "A saved card. What it looks like is there once the provider has said it.")]
pub struct PaymentMethodView<'a> {
    /// Its id.
    pub id: PaymentMethodId,
    #[schema(schema_with = schema::payment_method)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    customer_id: CustomerId,
    #[serde(rename = "type")]
    #[schema(schema_with = card)]
    kind: &'static str,
    /// Whether the provider keeps it. Only an `active` card can be charged.
    #[schema(schema_with = statuses)]
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
    /// Whether it is charged when a request names none.
    is_default: bool,
}

fn card() -> schema::Field {
    schema::word(["card"]).into()
}

fn statuses() -> schema::Field {
    schema::word([Status::Processing, Status::Active, Status::Failed].map(Status::name)).into()
}

impl<'a> PaymentMethodView<'a> {
    /// Renders a card.
    pub fn new(card: &'a PaymentMethod) -> Self {
        Self {
            id: card.id,
            object: "payment_method",
            livemode: card.mode == Mode::Live,
            created_at: card.created_at,
            customer_id: card.customer_id,
            kind: "card",
            status: card.status.name(),
            brand: card.brand.as_deref(),
            last4: card.last4.as_deref(),
            exp_month: card.exp_month,
            exp_year: card.exp_year,
            is_default: card.is_default,
        }
    }
}
