//! The sheets of invoices and their collection.

use common::id::{CollectionAttemptId, InvoiceId};
use common::invoices::{AttemptView, InvoiceView};
use serde_json::json;

use super::id;
use crate::openapi::sheet::Sheet;
use crate::routes::collections::RunView;
use crate::routes::invoices::{InvoiceFields, ScheduleFields};

pub(crate) fn invoices_create() -> Sheet {
    Sheet::new(
        "Create an invoice",
        "It is issued at once: `open`, with its number and its due date. Send `amount` alone, or `items`: then the total is \
         what they come to, with `amountTax` added and `amountDiscount` taken off. `paymentTerms` count days of the \
         account's calendar, in its time zone, from the moment of issue.",
    )
    .once()
    .takes::<InvoiceFields>(
        "InvoiceCreate",
        &["customerId", "currency"],
        json!({
            "customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "currency": "USD", "description": "November",
            "items": [{"description": "Hours", "quantity": 4, "unitAmount": 2500}], "amountTax": 825,
            "paymentTerms": "net_30",
        }),
    )
    .answers::<InvoiceView<'_>>(201, "The invoice, issued.")
    .refuses(&[404, 422])
    .followed_by(&["invoices.retrieve", "invoices.schedule", "invoices.issue", "invoices.void"])
}

pub(crate) fn invoices_list() -> Sheet {
    Sheet::new("List invoices", "Newest first, drafts and voided ones too.")
        .lists::<InvoiceView<'_>>("A page of invoices.", id::<InvoiceId>())
        .refuses(&[422])
}

pub(crate) fn invoices_retrieve() -> Sheet {
    Sheet::new("Retrieve an invoice", "Its present state.")
        .of_one::<InvoiceId>()
        .answers::<InvoiceView<'_>>(200, "The invoice.")
        .refuses(&[404])
}

pub(crate) fn invoices_issue() -> Sheet {
    Sheet::new(
        "Issue a draft",
        "It becomes `open`, and gets its number and its due date. Whatever is no draft is 409. It takes no body.",
    )
    .of_one::<InvoiceId>()
    .answers::<InvoiceView<'_>>(200, "The invoice, issued.")
    .refuses(&[404, 409])
}

pub(crate) fn invoices_void() -> Sheet {
    Sheet::new(
        "Void an invoice",
        "For good, whatever it was: a voided one is answered as it is, and a paid one keeps its payment, which is refunded \
         on its own. While a payment for it is under way: 409. It takes no body.",
    )
    .of_one::<InvoiceId>()
    .answers::<InvoiceView<'_>>(200, "The invoice, voided.")
    .refuses(&[404, 409])
}

pub(crate) fn invoices_schedule() -> Sheet {
    Sheet::new(
        "Schedule an invoice",
        "It is charged at `collectAt`, or at once if that has passed, and a soft decline is retried 1, 3, 5 and 7 days after \
         the first attempt. Only an `open` one can be scheduled.",
    )
    .of_one::<InvoiceId>()
    .takes::<ScheduleFields>("InvoiceSchedule", &["collectAt"], json!({"collectAt": "2026-12-01T09:00:00Z"}))
    .answers::<InvoiceView<'_>>(200, "The invoice, scheduled.")
    .refuses(&[404, 409, 422])
    .followed_by(&["invoices.attempts", "invoices.cancel_schedule"])
}

pub(crate) fn invoices_cancel_schedule() -> Sheet {
    Sheet::new(
        "Take an invoice out of collection",
        "It stays `open`, and no attempt begins after this is answered. While one is in flight: 409. It takes no body.",
    )
    .of_one::<InvoiceId>()
    .answers::<InvoiceView<'_>>(200, "The invoice, open.")
    .refuses(&[404, 409])
}

pub(crate) fn invoices_attempts() -> Sheet {
    Sheet::new("List the attempts to collect an invoice", "The first one first.")
        .of_one::<InvoiceId>()
        .lists::<AttemptView<'_>>("A page of attempts.", id::<CollectionAttemptId>())
        .refuses(&[404, 422])
}

pub(crate) fn invoices_scheduler_run() -> Sheet {
    Sheet::new(
        "Collect what is due now",
        "Test accounts only. Takes up to 50 of the account's invoices that are due, charges them, and answers when they are \
         paid or not. It may be called at any time and by any number at once: each invoice is charged by one of them. It \
         takes no body.",
    )
    .answers::<RunView>(200, "What has become of them.")
    .refuses(&[])
}
