//! The sheets of subscriptions.

use common::id::SubscriptionId;
use common::subscriptions::SubscriptionView;
use serde_json::json;

use super::{Sheet, id};
use crate::routes::subscriptions::SubscriptionFields;

pub(crate) fn subscriptions_create() -> Sheet {
    Sheet::new(
        "Create a subscription",
        "Each cycle has an invoice, which is issued when its first day begins in `timezone` and collected at once. The dates \
         are `startAt` and every interval of the plan after it. The first cycle that is billed is the next one from today \
         on: today's at once, with this request; what lies before is not billed. A test account that has 1,000 \
         subscriptions and active recurring invoices gets 409.",
    )
    .once()
    .takes::<SubscriptionFields>(
        "SubscriptionCreate",
        &["customerId", "planId"],
        json!({
            "customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "planId": "plan_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7",
            "startAt": "2026-11-30", "timezone": "America/New_York",
        }),
    )
    .answers::<SubscriptionView<'_>>(201, "The subscription.")
    .refuses(&[404, 409, 422])
    .followed_by(&["subscriptions.retrieve", "subscriptions.cancel"])
}

pub(crate) fn subscriptions_list() -> Sheet {
    Sheet::new("List subscriptions", "Newest first, cancelled ones too.")
        .lists::<SubscriptionView<'_>>("A page of subscriptions.", id::<SubscriptionId>())
        .refuses(&[422])
}

pub(crate) fn subscriptions_retrieve() -> Sheet {
    Sheet::new("Retrieve a subscription", "Its present state.")
        .of_one::<SubscriptionId>()
        .answers::<SubscriptionView<'_>>(200, "The subscription.")
        .refuses(&[404])
}

pub(crate) fn subscriptions_cancel() -> Sheet {
    Sheet::new(
        "Cancel a subscription",
        "At once and for good: it is billed no more, and its invoices that are not paid are no longer collected. They stay \
         `open`, and can be paid, scheduled or voided. A cancelled one is answered as it is. It takes no body.",
    )
    .of_one::<SubscriptionId>()
    .answers::<SubscriptionView<'_>>(200, "The subscription, cancelled.")
    .refuses(&[404])
}
