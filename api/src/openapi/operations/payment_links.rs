//! Payment links.

use domain::payment_links::PaymentLinkView;
use foundation::id::PaymentLinkId;
use serde_json::json;

use super::merchant_data_update;
use crate::openapi::operation_doc::OperationDoc;
use crate::routes::payment_links::PaymentLinkFields;

pub(crate) fn payment_links_create() -> OperationDoc {
    OperationDoc::new(
        "Create a payment link",
        "Its `url` is a payment page of this service. Anyone with the URL can pay, and it can be paid once. A link \
         always expires: at `expiresAt`, or 30 days after its creation.",
    )
    .idempotent()
    .request_body::<PaymentLinkFields>(
        "PaymentLinkCreate",
        &["amount", "currency"],
        json!({"amount": 4200, "currency": "USD", "description": "A ticket"}),
    )
    .response::<PaymentLinkView<'_>>(201, "The link.")
    .errors(&[422])
    .links(&["payment_links.retrieve", "payment_links.cancel"])
}

pub(crate) fn payment_links_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a payment link", "The current state; once paid, with `paidAt` and `paymentId`.")
        .path_id::<PaymentLinkId>()
        .response::<PaymentLinkView<'_>>(200, "The link.")
        .errors(&[404])
}

pub(crate) fn payment_links_update() -> OperationDoc {
    merchant_data_update::<PaymentLinkId, PaymentLinkView<'_>>("Change your own data on a payment link", "The link.")
}

pub(crate) fn payment_links_cancel() -> OperationDoc {
    OperationDoc::new(
        "Cancel a payment link",
        "The link can no longer be paid. A cancelled link is returned unchanged. If the link is paid or expired, or a \
         payment for it is processing, the request returns 409. It takes no body.",
    )
    .path_id::<PaymentLinkId>()
    .response::<PaymentLinkView<'_>>(200, "The cancelled link.")
    .errors(&[404, 409])
}
