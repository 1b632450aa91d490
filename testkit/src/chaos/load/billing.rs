//! Invoices collected at once, soon or in months, with cards that approve or decline; some are voided in between.

use serde_json::{Value, json};

use super::{
    caller::Caller,
    cards::{CardBehavior, Customer},
    payments::currency,
};
use crate::chaos::time::{self, DAY};

/// When an invoice is to be collected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    /// While the client waits.
    Soon,
    /// Long after the end of the run.
    Far,
}

pub(super) async fn bill(caller: &mut Caller, customers: &[Customer]) {
    if customers.is_empty() {
        return caller.pause(1000, 2000).await;
    }
    let customer =
        if caller.random.percent(70) { &customers[0] } else { &customers[caller.random.index(customers.len())] };
    let when = caller.random.of(&[When::Now, When::Now, When::Soon, When::Far]);
    let Some((id, _)) = invoice(caller, customer).await else { return };
    let delay_ms = match when {
        When::Now => 0,
        When::Soon => caller.random.between(1200, 5000),
        When::Far => caller.random.between(3_600_000, 400 * DAY.unsigned_abs()),
    };
    schedule(caller, &id, customer, delay_ms).await;
    caller.pause(10, 1500).await;
    match caller.random.below(6) {
        0 | 1 if when != When::Far => drop(caller.post(&format!("/v1/invoices/{id}/void"), Value::Null).await),
        2 => drop(caller.post(&format!("/v1/invoices/{id}/cancel_schedule"), Value::Null).await),
        3 => drop(caller.post("/v1/invoices/scheduler/run", Value::Null).await),
        _ => {}
    }
}

/// Creates an invoice and returns its id and the path of its page.
pub(super) async fn invoice(caller: &mut Caller, customer: &Customer) -> Option<(String, String)> {
    // Invoices for partial approvals are in USD only, so that a partial approval can be identified by its amount.
    let currency = if customer.behavior == CardBehavior::Partial { "USD" } else { currency(caller) };
    let body = json!({"customerId": customer.id, "currency": currency, "amount": caller.load.amount()});
    let response = caller.post("/v1/invoices", body).await.filter(|response| response.status == 201)?;
    let url = response.body["url"].as_str()?;
    Some((response.body["id"].as_str()?.to_owned(), url[url.find("/pay/")?..].to_owned()))
}

/// Schedules collection in this many milliseconds.
pub(super) async fn schedule(caller: &mut Caller, id: &str, customer: &Customer, delay_ms: u64) {
    let at = caller.load.clock.now() + i64::try_from(delay_ms).unwrap_or(0);
    let body = json!({"collectAt": time::format_timestamp(at), "paymentMethodId": customer.card});
    caller.post(&format!("/v1/invoices/{id}/schedule"), body).await;
}
