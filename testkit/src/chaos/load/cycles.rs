//! Subscriptions and recurring invoices of an account whose clock is moved ahead, day by day.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    super::{
        caller::Caller,
        time::{self, DAY},
    },
    cards::{self, Nature},
};

/// Of each kind at most, so that a day does not take for ever.
const MOST: usize = 12;

/// What runs in this account.
#[derive(Default)]
pub(super) struct Cycles {
    now: i64,
    made: usize,
}

impl Cycles {
    pub(super) async fn turn(&mut self, caller: &mut Caller) {
        if self.now == 0 {
            self.now = caller.world.clock.now();
        }
        if self.made < MOST && (self.made < 3 || caller.random.percent(30)) {
            self.made += 1;
            begin(caller, self.now).await;
        }
        for _ in 0..caller.random.below(3) {
            schedule_open(caller, self.now).await;
        }
        self.advance(caller).await;
    }

    /// A day and something, so that days are met at any hour.
    async fn advance(&mut self, caller: &mut Caller) {
        let to = self.now + DAY + i64::try_from(caller.random.below(3_600_000)).unwrap_or(0);
        let told = caller.post("/v1/test_clock/advance", json!({"to": time::printed(to)})).await;
        for _ in 0..40 {
            let Some(clock) = caller.get("/v1/test_clock").await else { return };
            if clock.get("pending").is_none() {
                self.now = clock["now"].as_str().and_then(time::parsed).unwrap_or(self.now);
                return;
            }
            if caller.world.is_over() {
                return;
            }
            caller.pause(500, 1500).await;
        }
        drop(told);
    }
}

async fn begin(caller: &mut Caller, now: i64) -> Option<()> {
    let nature = caller.random.of(&[Nature::Approves, Nature::Approves, Nature::Soft, Nature::Hard]);
    let customer = cards::customer(caller, nature).await?;
    let amount = caller.world.amount();
    let plan = json!({"name": "Tea", "amount": amount, "currency": "USD", "interval": "day"});
    let plan = caller.make("/v1/plans", plan).await?;
    let mut body = json!({"customerId": customer.id, "planId": plan, "paymentMethodId": customer.card});
    if caller.random.percent(40) {
        // Not before the clock was led there.
        let first = now.div_euclid(DAY) + i64::try_from(caller.random.between(1, 3)).unwrap_or(1);
        body["startAt"] = time::date(first).into();
    }
    caller.post("/v1/subscriptions", body).await;
    let items = json!([{"description": "Rent", "quantity": 1, "unitAmount": caller.world.amount()}]);
    let body = json!({
        "customerId": customer.id, "cadence": {"unit": "daily", "interval": caller.random.between(1, 2)},
        "template": {"currency": "USD", "items": items},
    });
    caller.post("/v1/recurring_invoices", body).await;
    Some(())
}

/// Puts what recurring invoices have produced into collection.
async fn schedule_open(caller: &mut Caller, now: i64) -> Option<()> {
    let list = caller.insist(Method::GET, "/v1/invoices?limit=20", None, Value::Null).await?;
    let open =
        list.body["data"].as_array()?.iter().filter(|i| i["status"] == "open" && i["collectionExhausted"].is_null());
    let ids: Vec<String> = open.filter_map(|invoice| invoice["id"].as_str().map(str::to_owned)).take(4).collect();
    for id in ids {
        caller.post(&format!("/v1/invoices/{id}/schedule"), json!({"collectAt": time::printed(now)})).await;
    }
    Some(())
}
