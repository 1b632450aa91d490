//! The sheets of recurring invoices.

use common::id::RecurringInvoiceId;
use common::recurring_invoices::RecurringInvoiceView;
use serde_json::json;

use super::id;
use crate::openapi::sheet::Sheet;
use crate::routes::recurring_invoices::RecurringInvoiceFields;

pub(crate) fn recurring_invoices_create() -> Sheet {
    Sheet::new(
        "Create a recurring invoice",
        "It produces an invoice on each date of its cadence, at the beginning of that day in the account's time zone. The \
         first is on the first date on or after today: a start that has passed makes no backlog, and today's is produced at \
         once. A month without the `dayOfMonth` gives its last day, and the next one that has it has it again. \
         A test account that has 1,000 subscriptions and active recurring invoices gets 409.",
    )
    .once()
    .takes::<RecurringInvoiceFields>(
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
    .answers::<RecurringInvoiceView<'_>>(201, "The recurring invoice, active.")
    .refuses(&[404, 409, 422])
    .followed_by(&[
        "recurring_invoices.retrieve",
        "recurring_invoices.update",
        "recurring_invoices.pause",
        "recurring_invoices.resume",
        "recurring_invoices.cancel",
    ])
}

pub(crate) fn recurring_invoices_list() -> Sheet {
    Sheet::new("List recurring invoices", "Newest first, whatever their status.")
        .lists::<RecurringInvoiceView<'_>>("A page of recurring invoices.", id::<RecurringInvoiceId>())
        .refuses(&[422])
}

pub(crate) fn recurring_invoices_retrieve() -> Sheet {
    Sheet::new("Retrieve a recurring invoice", "Its present state.")
        .of_one::<RecurringInvoiceId>()
        .answers::<RecurringInvoiceView<'_>>(200, "The recurring invoice.")
        .refuses(&[404])
}

pub(crate) fn recurring_invoices_update() -> Sheet {
    Sheet::new(
        "Update a recurring invoice",
        "Only what is sent changes; `cadence` and `template` are replaced as a whole. A template is taken by the next cycle \
         on. After another cadence the dates are counted from today, or from a start that is still ahead. If none is left it \
         is `completed`. A completed or cancelled one is 409.",
    )
    .of_one::<RecurringInvoiceId>()
    .takes::<RecurringInvoiceFields>("RecurringInvoiceUpdate", &[], json!({"name": "Rent and heating"}))
    .answers::<RecurringInvoiceView<'_>>(200, "The recurring invoice as it is now.")
    .refuses(&[404, 409, 422])
}

pub(crate) fn recurring_invoices_pause() -> Sheet {
    Sheet::new(
        "Pause a recurring invoice",
        "It produces nothing until it is resumed. A paused one is answered as it is; any but an active one is 409. It takes \
         no body.",
    )
    .of_one::<RecurringInvoiceId>()
    .answers::<RecurringInvoiceView<'_>>(200, "The recurring invoice, paused.")
    .refuses(&[404, 409])
}

pub(crate) fn recurring_invoices_resume() -> Sheet {
    Sheet::new(
        "Resume a recurring invoice",
        "A paused or parked one goes on with the first of its dates on or after today; what was missed is not made up for. \
         If none is left it is `completed`. An active one is answered as it is; a completed or cancelled one is 409, and \
         so is one for which a test account has no room. It takes no body.",
    )
    .of_one::<RecurringInvoiceId>()
    .answers::<RecurringInvoiceView<'_>>(200, "The recurring invoice.")
    .refuses(&[404, 409])
}

pub(crate) fn recurring_invoices_cancel() -> Sheet {
    Sheet::new(
        "Cancel a recurring invoice",
        "For good: it cannot restart. Its invoices stay as they are. A cancelled one is answered as it is. It takes no body.",
    )
    .of_one::<RecurringInvoiceId>()
    .answers::<RecurringInvoiceView<'_>>(200, "The recurring invoice, cancelled.")
    .refuses(&[404])
}
