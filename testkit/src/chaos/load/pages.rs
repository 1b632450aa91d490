//! Invoices that are paid on their page while they are being collected: two payers, of whom one pays.

use serde_json::Value;

use super::{
    super::caller::Caller,
    billing,
    cards::{self, Customer, Nature},
};

pub(super) async fn cross(caller: &mut Caller, customers: &[Customer]) {
    let Some(customer) = customers.iter().find(|customer| customer.nature == Nature::Approves) else {
        return caller.pause(1000, 2000).await;
    };
    let nature = match caller.random.below(10) {
        0 => Nature::Soft,
        1 => Nature::Partial,
        _ => Nature::Approves,
    };
    let Some(token) = cards::token(caller, nature).await else { return };
    let Some((id, path)) = billing::invoice(caller, customer).await else { return };
    let ahead = caller.random.between(300, 1800);
    billing::schedule(caller, &id, customer, ahead).await;
    let tip = if caller.random.percent(60) { "&tip=1" } else { "" };
    let form = format!("token={token}{tip}");
    let (mut payer, mut merchant) = (caller.clone(), caller.clone());
    let (paid_at, run_at) = (caller.random.between(0, 2200), ahead + caller.random.below(200));
    let end = caller.random.below(8);
    let paying = async {
        payer.pause(paid_at, paid_at).await;
        payer.submit(&path, &form).await;
    };
    let running = async {
        merchant.pause(run_at, run_at).await;
        match end {
            0 => drop(merchant.post(&format!("/v1/invoices/{id}/void"), Value::Null).await),
            1 => drop(merchant.post(&format!("/v1/invoices/{id}/cancel_schedule"), Value::Null).await),
            _ => drop(merchant.post("/v1/invoices/scheduler/run", Value::Null).await),
        }
    };
    tokio::join!(paying, running);
}
