//! A subscription as the API answers it and as events carry it.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Status, Subscription};
use crate::accounts::Mode;
use crate::calendar::{Date, TimeZone};
use crate::id::{CustomerId, PaymentMethodId, PlanId, SubscriptionId};
use crate::schema;
use crate::time::Timestamp;

/// The public JSON of a subscription.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Subscription, description = "A plan that a customer pays, cycle by cycle. Optional fields are there where they apply.")]
pub struct SubscriptionView<'a> {
    /// Its id.
    pub id: SubscriptionId,
    #[schema(schema_with = schema::subscription)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// Who pays.
    customer_id: CustomerId,
    /// What, and how often.
    plan_id: PlanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// With which card; the customer's default one if it is not there.
    payment_method_id: Option<PaymentMethodId>,
    /// Where it stands.
    #[schema(schema_with = statuses)]
    status: &'static str,
    /// From which its dates are counted.
    start_at: Date,
    /// In which its days begin.
    #[schema(value_type = TimeZone)]
    timezone: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the cycle that was billed last began.
    current_period_start: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When it ends, and the next one begins.
    current_period_end: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the next cycle is billed; not there once it is cancelled.
    next_billing_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_at: Option<Timestamp>,
}

fn statuses() -> schema::Field {
    schema::word(Status::ALL.map(Status::name)).into()
}

impl<'a> SubscriptionView<'a> {
    /// Renders a subscription.
    pub fn new(subscription: &'a Subscription) -> Self {
        Self {
            id: subscription.id,
            object: "subscription",
            livemode: subscription.mode == Mode::Live,
            created_at: subscription.created_at,
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
        }
    }
}
