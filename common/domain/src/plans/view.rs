//! The JSON of a plan in API responses.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Interval, Plan};
use foundation::id::PlanId;
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::money::Currency;
use foundation::schema;
use foundation::time::Timestamp;

/// A plan in the API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Plan, description = "An amount and how often it is charged.")]
pub struct PlanView<'a> {
    pub id: PlanId,
    #[schema(schema_with = schema::plan)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    #[schema(schema_with = schema::version)]
    version: i64,
    /// As sent when the plan was created.
    name: &'a str,
    /// The amount of each charge, in the currency's minor unit.
    #[schema(value_type = schema::PositiveAmount)]
    amount: i64,
    currency: Currency,
    /// The unit of the time between two charges.
    #[schema(value_type = Interval)]
    interval: &'static str,
    /// The number of intervals between two charges.
    #[schema(value_type = IntervalCount)]
    interval_count: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a ExternalId>,
}

schema::schema_is!(Interval, schema::enumeration(Interval::ALL.map(Interval::name)));
schema::field_types! { IntervalCount = schema::integer(1, Interval::Day.max_count().into()); }

impl<'a> PlanView<'a> {
    pub fn new(plan: &'a Plan, livemode: bool) -> Self {
        Self {
            id: plan.id,
            object: "plan",
            livemode,
            created_at: plan.created_at,
            version: plan.version,
            name: &plan.name,
            amount: plan.amount,
            currency: plan.currency,
            interval: plan.interval.name(),
            interval_count: plan.interval_count,
            metadata: plan.metadata.as_ref(),
            external_id: plan.external_id.as_ref(),
        }
    }
}
