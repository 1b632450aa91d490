//! The JSON of a payment link in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;

use super::{PaymentLink, Status};
use crate::accounts::Mode;
use foundation::id::{PaymentId, PaymentLinkId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::money::Currency;
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
    #[schema(schema_with = schema::version)]
    version: i64,
    /// - `open`: it can be paid.
    /// - `paid`: it was paid, also if the payment is refunded later. Final.
    /// - `cancelled`: a request ended it. Final.
    /// - `expired`: it was not paid in time. Final.
    #[schema(value_type = Status)]
    status: &'static str,
    /// What the payer owes, in the currency's minor unit, without what a payment page adds.
    #[schema(value_type = schema::PositiveAmount)]
    amount: i64,
    currency: Currency,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Shown to the payer.
    description: Option<&'a str>,
    /// The URL of the payment page, to be shared with the payer.
    #[schema(value_type = schema::PageUrl)]
    url: String,
    /// When the link expires, unless it is paid or cancelled before.
    expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the link was paid.
    paid_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The payment that paid the link.
    payment_id: Option<PaymentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the link was cancelled.
    cancelled_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a ExternalId>,
}

schema::schema_is!(Status, schema::enumeration(Status::ALL.map(Status::name)));

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
