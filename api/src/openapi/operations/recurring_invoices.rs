//! Recurring invoices.

use domain::recurring_invoices::RecurringInvoiceView;
use foundation::id::RecurringInvoiceId;
use serde_json::json;

use crate::openapi::operation_doc::OperationDoc;
use crate::routes::recurring_invoices::RecurringInvoiceFields;

pub(crate) fn recurring_invoices_create() -> OperationDoc {
    OperationDoc::new(
        "Create a recurring invoice",
        "It produces an invoice on each date of its cadence, at the start of that day in the account's time zone. The \
         first invoice is on the first date that is today or later, and today's is produced immediately; a start date \
         in the past creates no backlog. A month without the `dayOfMonth` uses its last day; later months that have \
         the day use it again. If a test account has 1,000 subscriptions and active recurring invoices, the request \
         returns 409.",
    )
    .idempotent()
    .request_body::<RecurringInvoiceFields>(
        "RecurringInvoiceCreate",
        &["customerId", "cadence", "template"],
        json!({
            "customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "name": "Rent",
            "cadence": {"unit": "monthly", "interval": 1, "dayOfMonth": 31}, "startDate": "2027-01-01",
            "template": {
                "currency": "USD", "paymentTerms": "net_7",
                "items": [{"description": "Rent", "quantity": 1, "unitAmount": 95000}],
            },
        }),
    )
    .response::<RecurringInvoiceView<'_>>(201, "The active recurring invoice.")
    .errors(&[404, 409, 422])
    .links(&[
        "recurring_invoices.retrieve",
        "recurring_invoices.update",
        "recurring_invoices.pause",
        "recurring_invoices.resume",
        "recurring_invoices.cancel",
    ])
}

pub(crate) fn recurring_invoices_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a recurring invoice", "The current state.")
        .path_id::<RecurringInvoiceId>()
        .response::<RecurringInvoiceView<'_>>(200, "The recurring invoice.")
        .errors(&[404])
}

pub(crate) fn recurring_invoices_update() -> OperationDoc {
    OperationDoc::new(
        "Update a recurring invoice",
        "Only the fields that are sent change; `cadence` and `template` are replaced as a whole. A new template \
         applies from the next cycle. With a new cadence the dates are counted from today, or from a start date in the \
         future. If no date is left, the status becomes `completed`. For a completed or cancelled recurring invoice, \
         the request returns 409.",
    )
    .path_id::<RecurringInvoiceId>()
    .request_body::<RecurringInvoiceFields>("RecurringInvoiceUpdate", &[], json!({"name": "Rent and heating"}))
    .response::<RecurringInvoiceView<'_>>(200, "The updated recurring invoice.")
    .errors(&[404, 409, 422])
}

pub(crate) fn recurring_invoices_pause() -> OperationDoc {
    OperationDoc::new(
        "Pause a recurring invoice",
        "It produces no invoices until it is resumed. If it is already paused, it is returned unchanged; in any other \
         status than active, the request returns 409. It takes no body.",
    )
    .path_id::<RecurringInvoiceId>()
    .response::<RecurringInvoiceView<'_>>(200, "The paused recurring invoice.")
    .errors(&[404, 409])
}

pub(crate) fn recurring_invoices_resume() -> OperationDoc {
    OperationDoc::new(
        "Resume a recurring invoice",
        "A paused or parked recurring invoice continues with its first date that is today or later; missed dates are \
         skipped. If no date is left, the status becomes `completed`. An active one is returned unchanged. If it is \
         completed or cancelled, or a test account is at its limit, the request returns 409. It takes no body.",
    )
    .path_id::<RecurringInvoiceId>()
    .response::<RecurringInvoiceView<'_>>(200, "The recurring invoice.")
    .errors(&[404, 409])
}

pub(crate) fn recurring_invoices_cancel() -> OperationDoc {
    OperationDoc::new(
        "Cancel a recurring invoice",
        "This is permanent: it cannot be resumed. Its invoices do not change. A cancelled one is returned unchanged. \
         It takes no body.",
    )
    .path_id::<RecurringInvoiceId>()
    .response::<RecurringInvoiceView<'_>>(200, "The cancelled recurring invoice.")
    .errors(&[404])
}
