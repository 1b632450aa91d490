//! Payment links.

use common::id::PaymentLinkId;
use common::payment_links::PaymentLinkView;
use serde_json::json;

use super::id;
use crate::openapi::sheet::Sheet;
use crate::routes::payment_links::PaymentLinkFields;

pub(crate) fn payment_links_create() -> Sheet {
    Sheet::new(
        "Create a payment link",
        "Its `url` is a page of this service where whoever has it may pay, once. A link always expires: by `expiresAt`, or \
         30 days after its creation.",
    )
    .once()
    .takes::<PaymentLinkFields>(
        "PaymentLinkCreate",
        &["amount", "currency"],
        json!({"amount": 4200, "currency": "USD", "description": "A ticket"}),
    )
    .answers::<PaymentLinkView<'_>>(201, "The link.")
    .refuses(&[422])
    .followed_by(&["payment_links.retrieve", "payment_links.cancel"])
}

pub(crate) fn payment_links_list() -> Sheet {
    Sheet::new("List payment links", "Newest first, whatever became of them.")
        .lists::<PaymentLinkView<'_>>("A page of links.", id::<PaymentLinkId>())
        .refuses(&[422])
}

pub(crate) fn payment_links_retrieve() -> Sheet {
    Sheet::new("Retrieve a payment link", "Its present state; once paid, with `paidAt` and `paymentId`.")
        .of_one::<PaymentLinkId>()
        .answers::<PaymentLinkView<'_>>(200, "The link.")
        .refuses(&[404])
}

pub(crate) fn payment_links_cancel() -> Sheet {
    Sheet::new(
        "Cancel a payment link",
        "It can be paid no more. A cancelled one is answered as it is; one that is paid or has expired is 409, and so is one \
         while a payment for it is under way. It takes no body.",
    )
    .of_one::<PaymentLinkId>()
    .answers::<PaymentLinkView<'_>>(200, "The link, cancelled.")
    .refuses(&[404, 409])
}
