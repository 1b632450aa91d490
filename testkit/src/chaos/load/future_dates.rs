//! Subscriptions and recurring invoices that start far in the future and must not be charged during a run.

use serde_json::json;

use super::{
    caller::Caller,
    cards::{CardBehavior, Customer},
};
use crate::chaos::time::{self, DAY};

/// The maximum number of each kind.
const MAX_OF_EACH: usize = 40;

#[derive(Default)]
pub(super) struct FutureDates {
    created: usize,
}

impl FutureDates {
    pub(super) async fn step(&mut self, caller: &mut Caller, customers: &[Customer]) {
        let Some(customer) = customers.iter().find(|customer| customer.behavior == CardBehavior::Approves) else {
            return;
        };
        if self.created < MAX_OF_EACH && subscribe(caller, customer).await.is_some() {
            self.created += 1;
        }
        // The first few are created without pauses.
        if self.created > 4 {
            caller.pause(1000, 2500).await;
        }
    }
}

async fn subscribe(caller: &mut Caller, customer: &Customer) -> Option<()> {
    let (interval, unit) = caller.random.of(&[("day", "daily"), ("week", "weekly"), ("month", "monthly")]);
    let first = caller.load.clock.now().div_euclid(DAY) + i64::try_from(caller.random.between(2, 380)).ok()?;
    let first = time::date(first);
    let plan = json!({"name": "Later", "amount": caller.load.amount(), "currency": "USD", "interval": interval});
    let plan = caller.create("/v1/plans", plan).await?;
    let body = json!({"customerId": customer.id, "planId": plan, "paymentMethodId": customer.card, "startAt": first});
    caller.post("/v1/subscriptions", body).await;
    let items = json!([{"description": "Rent", "quantity": 1, "unitAmount": caller.load.amount()}]);
    let body = json!({
        "customerId": customer.id, "cadence": {"unit": unit, "interval": 1}, "startDate": first,
        "template": {"currency": "USD", "items": items},
    });
    caller.post("/v1/recurring_invoices", body).await;
    Some(())
}
