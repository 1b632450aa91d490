//! A saved card as the API answers it and as events carry it.

use serde::Serialize;

use super::{PaymentMethod, Status};
use crate::accounts::Mode;
use crate::id::{CustomerId, PaymentMethodId};
use crate::time::Timestamp;

/// The public JSON of a saved card.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentMethodView<'a> {
    /// Its id.
    pub id: PaymentMethodId,
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    customer_id: CustomerId,
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    brand: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last4: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp_month: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp_year: Option<i16>,
    is_default: bool,
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
            status: match card.status {
                Status::Processing => "processing",
                Status::Active => "active",
                Status::Failed => "failed",
            },
            brand: card.brand.as_deref(),
            last4: card.last4.as_deref(),
            exp_month: card.exp_month,
            exp_year: card.exp_year,
            is_default: card.is_default,
        }
    }
}
