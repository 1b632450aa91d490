//! Subscriptions and recurring invoices whose first date is far ahead: nothing of them is ever charged in a run.

use serde_json::json;

use super::{
    super::{
        caller::Caller,
        time::{self, DAY},
    },
    cards::{Customer, Nature},
};

/// Of each kind at most.
const MOST: usize = 40;

#[derive(Default)]
pub(super) struct Ahead {
    made: usize,
}

impl Ahead {
    pub(super) async fn turn(&mut self, caller: &mut Caller, customers: &[Customer]) {
        let Some(customer) = customers.iter().find(|customer| customer.nature == Nature::Approves) else { return };
        if self.made < MOST && subscribe(caller, customer).await.is_some() {
            self.made += 1;
        }
        // A few are there at once, whatever comes.
        if self.made > 4 {
            caller.pause(1000, 2500).await;
        }
    }
}

async fn subscribe(caller: &mut Caller, customer: &Customer) -> Option<()> {
    let (interval, unit) = caller.random.of(&[("day", "daily"), ("week", "weekly"), ("month", "monthly")]);
    let first = caller.world.clock.now().div_euclid(DAY) + i64::try_from(caller.random.between(2, 380)).ok()?;
    let first = time::date(first);
    let plan = json!({"name": "Later", "amount": caller.world.amount(), "currency": "USD", "interval": interval});
    let plan = caller.make("/v1/plans", plan).await?;
    let body = json!({"customerId": customer.id, "planId": plan, "paymentMethodId": customer.card, "startAt": first});
    caller.post("/v1/subscriptions", body).await;
    let items = json!([{"description": "Rent", "quantity": 1, "unitAmount": caller.world.amount()}]);
    let body = json!({
        "customerId": customer.id, "cadence": {"unit": unit, "interval": 1}, "startDate": first,
        "template": {"currency": "USD", "items": items},
    });
    caller.post("/v1/recurring_invoices", body).await;
    Some(())
}
