//! The JSON of a payment link in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;

use super::{PaymentLink, Status};
use crate::accounts::Mode;
use foundation::id::{PaymentId, PaymentLinkId};
use foundation::money::{Currency, MAX_AMOUNT};
use foundation::own_data::{ExternalId, Metadata};
use foundation::public_url;
use foundation::schema;
use foundation::time::Timestamp;

/// A payment link in the API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PaymentLink, description = "An amount that anyone with the link's URL may pay, once, until the link expires.")]
pub struct PaymentLinkView<'a> {
    pub id: PaymentLinkId,
    #[schema(schema_with = schema::payment_link)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// Rises with each change.
    #[schema(schema_with = schema::version)]
    version: i64,
    #[schema(schema_with = statuses)]
    status: &'static str,
    #[schema(schema_with = amount)]
    amount: i64,
    currency: Currency,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    /// The URL of the payment page, to be shared with the payer.
    #[schema(schema_with = schema::page)]
    url: String,
    expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The payment that paid the link.
    payment_id: Option<PaymentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own data.
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own id.
    external_id: Option<&'a ExternalId>,
}

fn amount() -> schema::Field {
    schema::integer(1, MAX_AMOUNT).into()
}

fn statuses() -> schema::Field {
    schema::enumeration(Status::ALL.map(Status::name)).into()
}

impl<'a> PaymentLinkView<'a> {
    pub fn new(link: &'a PaymentLink) -> Self {
        Self {
            id: link.id,
            object: "payment_link",
            livemode: link.mode == Mode::Live,
            created_at: link.created_at,
            version: link.version,
            status: link.status.name(),
            amount: link.amount,
            currency: link.currency,
            description: link.description.as_deref(),
            url: public_url::of(format_args!("/pay/l/{}", link.page_token)),
            expires_at: link.expires_at,
            paid_at: link.paid_at,
            payment_id: link.payment_id,
            cancelled_at: link.cancelled_at,
            metadata: link.metadata.as_ref(),
            external_id: link.external_id.as_ref(),
        }
    }
}
