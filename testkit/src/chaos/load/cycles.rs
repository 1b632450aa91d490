//! Subscriptions and recurring invoices of an account whose test clock is advanced day by day.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    caller::Caller,
    cards::{self, CardBehavior},
};
use crate::chaos::time::{self, DAY};

/// The maximum number of each kind, so that advancing by a day stays fast.
const MAX_OF_EACH: usize = 12;

/// The state of this account.
#[derive(Default)]
pub(super) struct Cycles {
    now: i64,
    created: usize,
}

impl Cycles {
    pub(super) async fn step(&mut self, caller: &mut Caller) {
        if self.now == 0 {
            self.now = caller.load.clock.now();
        }
        if self.created < MAX_OF_EACH && (self.created < 3 || caller.random.percent(30)) {
            self.created += 1;
            create(caller, self.now).await;
        }
        for _ in 0..caller.random.below(3) {
            schedule_open_invoices(caller, self.now).await;
        }
        self.advance(caller).await;
    }

    /// By a day and up to an hour, so that billing times vary.
    async fn advance(&mut self, caller: &mut Caller) {
        let to = self.now + DAY + i64::try_from(caller.random.below(3_600_000)).unwrap_or(0);
        let response = caller.post("/v1/test_clock/advance", json!({"to": time::format_timestamp(to)})).await;
        for _ in 0..40 {
            let Some(clock) = caller.get("/v1/test_clock").await else { return };
            if clock.get("pending").is_none() {
                self.now = clock["now"].as_str().and_then(time::parse_timestamp).unwrap_or(self.now);
                return;
            }
            if caller.load.has_ended() {
                return;
            }
            caller.pause(500, 1500).await;
        }
        drop(response);
    }
}

async fn create(caller: &mut Caller, now: i64) -> Option<()> {
    let behavior =
        caller.random.of(&[CardBehavior::Approves, CardBehavior::Approves, CardBehavior::Soft, CardBehavior::Hard]);
    let customer = cards::customer(caller, behavior).await?;
    let amount = caller.load.amount();
    let plan = json!({"name": "Tea", "amount": amount, "currency": "USD", "interval": "day"});
    let plan = caller.create("/v1/plans", plan).await?;
    let mut body = json!({"customerId": customer.id, "planId": plan, "paymentMethodId": customer.card});
    if caller.random.percent(40) {
        // Some start after the clock's current time.
        let first = now.div_euclid(DAY) + i64::try_from(caller.random.between(1, 3)).unwrap_or(1);
        body["startAt"] = time::date(first).into();
    }
    caller.post("/v1/subscriptions", body).await;
    let items = json!([{"description": "Rent", "quantity": 1, "unitAmount": caller.load.amount()}]);
    let body = json!({
        "customerId": customer.id, "cadence": {"unit": "daily", "interval": caller.random.between(1, 2)},
        "template": {"currency": "USD", "items": items},
    });
    caller.post("/v1/recurring_invoices", body).await;
    Some(())
}

/// Schedules the collection of invoices created by recurring invoices.
async fn schedule_open_invoices(caller: &mut Caller, now: i64) -> Option<()> {
    let list = caller.call_with_retries(Method::GET, "/v1/invoices?limit=20", None, Value::Null).await?;
    let open =
        list.body["data"].as_array()?.iter().filter(|i| i["status"] == "open" && i["collectionExhausted"].is_null());
    let ids: Vec<String> = open.filter_map(|invoice| invoice["id"].as_str().map(str::to_owned)).take(4).collect();
    for id in ids {
        caller.post(&format!("/v1/invoices/{id}/schedule"), json!({"collectAt": time::format_timestamp(now)})).await;
    }
    Some(())
}
