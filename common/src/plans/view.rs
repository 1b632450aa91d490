//! A plan as the API answers it.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Interval, Plan};
use crate::id::PlanId;
use crate::money::{Currency, MAX_AMOUNT};
use crate::schema;
use crate::time::Timestamp;

/// The public JSON of a plan.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Plan, description = "What is charged, and how often.")]
pub struct PlanView<'a> {
    /// Its id.
    pub id: PlanId,
    #[schema(schema_with = schema::plan)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// As given when the plan was made.
    name: &'a str,
    /// Minor units of each charge.
    #[schema(schema_with = amount)]
    amount: i64,
    currency: Currency,
    #[schema(schema_with = intervals)]
    interval: &'static str,
    /// How many intervals lie between two charges.
    #[schema(schema_with = interval_count)]
    interval_count: i32,
}

fn amount() -> schema::Field {
    schema::whole(1, MAX_AMOUNT).into()
}

fn intervals() -> schema::Field {
    schema::word(Interval::ALL.map(Interval::name)).into()
}

fn interval_count() -> schema::Field {
    schema::whole(1, Interval::Day.max_count().into()).into()
}

impl<'a> PlanView<'a> {
    /// Renders a plan.
    pub fn new(plan: &'a Plan, livemode: bool) -> Self {
        Self {
            id: plan.id,
            object: "plan",
            livemode,
            created_at: plan.created_at,
            name: &plan.name,
            amount: plan.amount,
            currency: plan.currency,
            interval: plan.interval.name(),
            interval_count: plan.interval_count,
        }
    }
}
