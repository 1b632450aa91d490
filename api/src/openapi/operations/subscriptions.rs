//! Subscriptions.

use domain::subscriptions::SubscriptionView;
use foundation::id::SubscriptionId;
use serde_json::json;

use super::merchant_data_update;
use crate::openapi::operation_doc::OperationDoc;
use crate::routes::subscriptions::SubscriptionFields;

pub(crate) fn subscriptions_create() -> OperationDoc {
    OperationDoc::new(
        "Create a subscription",
        "Each cycle has an invoice, which is issued and collected when the cycle's first day starts in `timezone`. \
         Cycles start at `startAt` and after every interval of the plan. The first cycle to be billed is the first \
         that starts today or later: today's is billed with this request, and earlier cycles are not billed. The response \
         waits up to 25 s for the first collection: `past_due` means that it failed, `active` that it succeeded or is not \
         known yet, which the invoice `latestInvoiceId` shows. If a test account has 1,000 subscriptions and active recurring invoices, the request returns 409.",
    )
    .idempotent()
    .request_body::<SubscriptionFields>(
        "SubscriptionCreate",
        &["customerId", "planId"],
        json!({
            "customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "planId": "plan_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7",
            "startAt": "2026-11-30", "timezone": "America/New_York",
        }),
    )
    .response::<SubscriptionView<'_>>(201, "The subscription.")
    .errors(&[404, 409, 422])
    .links(&["subscriptions.retrieve", "subscriptions.cancel"])
}

pub(crate) fn subscriptions_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a subscription", "The current state.")
        .path_id::<SubscriptionId>()
        .response::<SubscriptionView<'_>>(200, "The subscription.")
        .errors(&[404])
}

pub(crate) fn subscriptions_update() -> OperationDoc {
    merchant_data_update::<SubscriptionId, SubscriptionView<'_>>(
        "Change your own data on a subscription",
        "The subscription.",
    )
}

pub(crate) fn subscriptions_cancel() -> OperationDoc {
    OperationDoc::new(
        "Cancel a subscription",
        "This is immediate and permanent: there are no further invoices, and unpaid invoices are no longer collected. \
         They stay `open` and can be paid, scheduled or voided. A cancelled subscription is returned unchanged. It \
         takes no body.",
    )
    .path_id::<SubscriptionId>()
    .response::<SubscriptionView<'_>>(200, "The cancelled subscription.")
    .errors(&[404])
}
