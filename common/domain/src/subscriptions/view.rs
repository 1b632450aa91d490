//! The JSON of a subscription in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Status, Subscription};
use crate::accounts::Mode;
use foundation::calendar::{Date, TimeZone};
use foundation::id::{CustomerId, InvoiceId, PaymentMethodId, PlanId, SubscriptionId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::schema;
use foundation::time::Timestamp;

/// A subscription in the API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Subscription, description = "A plan that a customer pays in each billing cycle. Optional fields are present where they apply.")]
pub struct SubscriptionView<'a> {
    pub id: SubscriptionId,
    #[schema(schema_with = schema::subscription)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    #[schema(schema_with = schema::version)]
    version: i64,
    /// The customer who is billed.
    customer_id: CustomerId,
    /// The plan, which has the amount and the time between two charges.
    plan_id: PlanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The card to charge. If absent, the customer's default card is charged.
    payment_method_id: Option<PaymentMethodId>,
    /// - `scheduled`: no cycle is billed yet.
    /// - `active`: billed.
    /// - `past_due`: an invoice is unpaid after a failed attempt to collect it.
    /// - `cancelled`: a request ended it. Final.
    #[schema(value_type = Status)]
    status: &'static str,
    /// The date from which billing dates are counted.
    start_at: Date,
    /// The time zone of the billing dates.
    #[schema(value_type = TimeZone)]
    timezone: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The start of the last billed cycle.
    current_period_start: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The end of that cycle, at which the next one starts.
    current_period_end: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the next cycle is billed. Absent once the subscription is cancelled.
    next_billing_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When it was cancelled.
    cancelled_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Shown on its invoices instead of the plan's name.
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The invoice of the last billed cycle.
    latest_invoice_id: Option<InvoiceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a ExternalId>,
}

schema::schema_is!(Status, schema::enumeration(Status::ALL.map(Status::name)));

impl<'a> SubscriptionView<'a> {
    pub fn new(subscription: &'a Subscription) -> Self {
        Self {
            id: subscription.id,
            object: "subscription",
            livemode: subscription.mode == Mode::Live,
            created_at: subscription.created_at,
            version: subscription.version,
            customer_id: subscription.customer_id,
            plan_id: subscription.plan_id,
            payment_method_id: subscription.payment_method_id,
            status: subscription.status.name(),
            start_at: subscription.anchor,
            timezone: &subscription.timezone,
            current_period_start: subscription.current_period_start,
            current_period_end: subscription.current_period_end,
            next_billing_at: subscription.next_billing_at,
            cancelled_at: subscription.cancelled_at,
            description: subscription.description.as_deref(),
            latest_invoice_id: subscription.latest_invoice_id,
            metadata: subscription.metadata.as_ref(),
            external_id: subscription.external_id.as_ref(),
        }
    }
}
