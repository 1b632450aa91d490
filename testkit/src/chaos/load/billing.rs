//! Invoices that collect themselves, at once, soon, or in months, with cards that approve and cards that do not; some are
//! voided meanwhile.

use serde_json::{Value, json};

use super::{
    super::caller::Caller,
    cards::{Customer, Nature},
    payments::currency,
};
use crate::chaos::time::{self, DAY};

/// When an invoice is to be collected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    /// While the client looks on.
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
    let ahead = match when {
        When::Now => 0,
        When::Soon => caller.random.between(1200, 5000),
        When::Far => caller.random.between(3_600_000, 400 * DAY.unsigned_abs()),
    };
    schedule(caller, &id, customer, ahead).await;
    caller.pause(10, 1500).await;
    match caller.random.below(6) {
        0 | 1 if when != When::Far => drop(caller.post(&format!("/v1/invoices/{id}/void"), Value::Null).await),
        2 => drop(caller.post(&format!("/v1/invoices/{id}/cancel_schedule"), Value::Null).await),
        3 => drop(caller.post("/v1/invoices/scheduler/run", Value::Null).await),
        _ => {}
    }
}

/// An invoice of a customer, and the path of its page.
pub(super) async fn invoice(caller: &mut Caller, customer: &Customer) -> Option<(String, String)> {
    // A card is kept where its currency is taken; a part of a part is told by its amount.
    let currency = if customer.nature == Nature::Partial { "USD" } else { currency(caller) };
    let body = json!({"customerId": customer.id, "currency": currency, "amount": caller.world.amount()});
    let told = caller.post("/v1/invoices", body).await.filter(|told| told.status == 201)?;
    let url = told.body["url"].as_str()?;
    Some((told.body["id"].as_str()?.to_owned(), url[url.find("/pay/")?..].to_owned()))
}

/// It is to be collected so many milliseconds from now.
pub(super) async fn schedule(caller: &mut Caller, id: &str, customer: &Customer, ahead: u64) {
    let at = caller.world.clock.now() + i64::try_from(ahead).unwrap_or(0);
    let body = json!({"collectAt": time::printed(at), "paymentMethodId": customer.card});
    caller.post(&format!("/v1/invoices/{id}/schedule"), body).await;
}
