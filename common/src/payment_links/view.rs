//! A payment link as the API answers it and as events carry it.

use serde::Serialize;
use utoipa::ToSchema;

use super::{PaymentLink, Status};
use crate::accounts::Mode;
use crate::id::{PaymentId, PaymentLinkId};
use crate::money::{Currency, MAX_AMOUNT};
use crate::time::Timestamp;
use crate::{public_url, schema};

/// The public JSON of a payment link.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PaymentLink, description = "An amount that whoever has the address may pay, once, until it expires.")]
pub struct PaymentLinkView<'a> {
    /// Its id.
    pub id: PaymentLinkId,
    #[schema(schema_with = schema::payment_link)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// Where it stands.
    #[schema(schema_with = statuses)]
    status: &'static str,
    /// What is to be paid.
    #[schema(schema_with = amount)]
    amount: i64,
    currency: Currency,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    /// Where it is paid: a page of this service, safe to give to a cardholder.
    #[schema(schema_with = schema::page)]
    url: String,
    /// Until when it can be paid.
    expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// What paid it.
    payment_id: Option<PaymentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_at: Option<Timestamp>,
}

fn amount() -> schema::Field {
    schema::whole(1, MAX_AMOUNT).into()
}

fn statuses() -> schema::Field {
    schema::word(Status::ALL.map(Status::name)).into()
}

impl<'a> PaymentLinkView<'a> {
    /// Renders a link as it stood when it was read.
    pub fn new(link: &'a PaymentLink) -> Self {
        Self {
            id: link.id,
            object: "payment_link",
            livemode: link.mode == Mode::Live,
            created_at: link.created_at,
            status: link.status.name(),
            amount: link.amount,
            currency: link.currency,
            description: link.description.as_deref(),
            url: public_url::of(format_args!("/pay/l/{}", link.page_token)),
            expires_at: link.expires_at,
            paid_at: link.paid_at,
            payment_id: link.payment_id,
            cancelled_at: link.cancelled_at,
        }
    }
}
