//! Invoices paid on their page while they are being collected: only one of the two may charge.

use serde_json::Value;

use super::{
    billing,
    caller::Caller,
    cards::{self, CardBehavior, Customer},
};

pub(super) async fn pay_during_collection(caller: &mut Caller, customers: &[Customer]) {
    let Some(customer) = customers.iter().find(|customer| customer.behavior == CardBehavior::Approves) else {
        return caller.pause(1000, 2000).await;
    };
    let behavior = match caller.random.below(10) {
        0 => CardBehavior::Soft,
        1 => CardBehavior::Partial,
        _ => CardBehavior::Approves,
    };
    let Some(token) = cards::token(caller, behavior).await else { return };
    let Some((id, path)) = billing::invoice(caller, customer).await else { return };
    let delay_ms = caller.random.between(300, 1800);
    billing::schedule(caller, &id, customer, delay_ms).await;
    let tip = if caller.random.percent(60) { "&tip=1" } else { "" };
    let form = format!("token={token}{tip}");
    let (mut payer, mut merchant) = (caller.clone(), caller.clone());
    let (paid_at, run_at) = (caller.random.between(0, 2200), delay_ms + caller.random.below(200));
    let choice = caller.random.below(8);
    let paying = async {
        payer.pause(paid_at, paid_at).await;
        payer.post_form(&path, &form).await;
    };
    let running = async {
        merchant.pause(run_at, run_at).await;
        match choice {
            0 => drop(merchant.post(&format!("/v1/invoices/{id}/void"), Value::Null).await),
            1 => drop(merchant.post(&format!("/v1/invoices/{id}/cancel_schedule"), Value::Null).await),
            _ => drop(merchant.post("/v1/invoices/scheduler/run", Value::Null).await),
        }
    };
    tokio::join!(paying, running);
}
