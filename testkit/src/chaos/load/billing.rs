//! Invoices that collect themselves at once, with cards that approve and cards that do not; some are voided meanwhile.

use serde_json::{Value, json};

use super::{super::caller::Caller, cards::Customer};
use crate::chaos::time;

pub(super) async fn bill(caller: &mut Caller, customers: &[Customer]) {
    if customers.is_empty() {
        return caller.pause(1000, 2000).await;
    }
    let customer =
        if caller.random.percent(70) { &customers[0] } else { &customers[caller.random.index(customers.len())] };
    let body = json!({"customerId": customer.id, "currency": "USD", "amount": caller.world.amount()});
    let Some(told) = caller.post("/v1/invoices", body).await.filter(|told| told.status == 201) else { return };
    let Some(id) = told.body["id"].as_str().map(str::to_owned) else { return };
    let now = time::printed(caller.world.clock.now());
    let schedule = format!("/v1/invoices/{id}/schedule");
    caller.post(&schedule, json!({"collectAt": now, "paymentMethodId": customer.card})).await;
    caller.pause(10, 1500).await;
    match caller.random.below(6) {
        0 | 1 => drop(caller.post(&format!("/v1/invoices/{id}/void"), Value::Null).await),
        2 => drop(caller.post(&format!("/v1/invoices/{id}/cancel_schedule"), Value::Null).await),
        3 => drop(caller.post("/v1/invoices/scheduler/run", Value::Null).await),
        _ => {}
    }
}
