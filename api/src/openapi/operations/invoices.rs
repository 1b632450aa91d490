//! Invoices and their collection.

use domain::invoices::InvoiceView;
use foundation::id::InvoiceId;
use serde_json::json;

use super::merchant_data_update;
use crate::openapi::operation_doc::OperationDoc;
use crate::routes::collections::RunView;
use crate::routes::invoices::{InvoiceFields, ScheduleFields};

pub(crate) fn invoices_create() -> OperationDoc {
    OperationDoc::new(
        "Create an invoice",
        "The invoice is issued immediately: `open`, with its number and its due date. Send either `amount`, or \
         `items`: then the total is their sum plus `amountTax` minus `amountDiscount`. `paymentTerms` counts calendar \
         days in the account's time zone, from the time of issue.",
    )
    .idempotent()
    .request_body::<InvoiceFields>(
        "InvoiceCreate",
        &["customerId", "currency"],
        json!({
            "customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "currency": "USD", "description": "November",
            "items": [{"description": "Hours", "quantity": 4, "unitAmount": 2500}], "amountTax": 825,
            "paymentTerms": "net_30",
        }),
    )
    .response::<InvoiceView<'_>>(201, "The issued invoice.")
    .errors(&[404, 422])
    .links(&["invoices.retrieve", "invoices.schedule", "invoices.issue", "invoices.void"])
}

pub(crate) fn invoices_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve an invoice", "The current state.")
        .path_id::<InvoiceId>()
        .response::<InvoiceView<'_>>(200, "The invoice.")
        .errors(&[404])
}

pub(crate) fn invoices_update() -> OperationDoc {
    merchant_data_update::<InvoiceId, InvoiceView<'_>>("Change your own data on an invoice", "The invoice.")
}

pub(crate) fn invoices_issue() -> OperationDoc {
    OperationDoc::new(
        "Issue a draft",
        "The draft becomes `open` and gets its number and its due date. An invoice in any other status returns 409. It \
         takes no body.",
    )
    .path_id::<InvoiceId>()
    .response::<InvoiceView<'_>>(200, "The issued invoice.")
    .errors(&[404, 409])
}

pub(crate) fn invoices_void() -> OperationDoc {
    OperationDoc::new(
        "Void an invoice",
        "This is permanent, and possible in any status. A voided invoice is returned unchanged. A paid invoice keeps \
         its payment, which must be refunded separately. While a payment for the invoice is processing, the request \
         returns 409. It takes no body.",
    )
    .path_id::<InvoiceId>()
    .response::<InvoiceView<'_>>(200, "The voided invoice.")
    .errors(&[404, 409])
}

pub(crate) fn invoices_schedule() -> OperationDoc {
    OperationDoc::new(
        "Schedule an invoice",
        "It is charged at `collectAt`, or immediately if that is in the past. A soft decline is retried 1, 3, 5 and 7 \
         days after the first attempt. Only an `open` invoice can be scheduled.",
    )
    .path_id::<InvoiceId>()
    .request_body::<ScheduleFields>("InvoiceSchedule", &["collectAt"], json!({"collectAt": "2026-12-01T09:00:00Z"}))
    .response::<InvoiceView<'_>>(200, "The scheduled invoice.")
    .errors(&[404, 409, 422])
    .links(&["invoices.attempts", "invoices.cancel_schedule"])
}

pub(crate) fn invoices_cancel_schedule() -> OperationDoc {
    OperationDoc::new(
        "Cancel the collection of an invoice",
        "It stays `open`, and no attempt starts after the response. While an attempt is processing, the request \
         returns 409. It takes no body.",
    )
    .path_id::<InvoiceId>()
    .response::<InvoiceView<'_>>(200, "The open invoice.")
    .errors(&[404, 409])
}

pub(crate) fn invoices_scheduler_run() -> OperationDoc {
    OperationDoc::new(
        "Collect due invoices now",
        "Test accounts only. Charges up to 50 of the account's due invoices and waits for the outcomes. Concurrent \
         calls are safe: each invoice is charged by only one of them. It takes no body.",
    )
    .response::<RunView>(200, "The result.")
    .errors(&[])
}
