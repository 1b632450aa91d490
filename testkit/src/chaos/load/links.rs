//! Payment links, each paid by two at once, or cancelled meanwhile.

use serde_json::{Value, json};

use super::{
    super::caller::Caller,
    cards::{self, Nature},
    payments::currency,
};

pub(super) async fn sell(caller: &mut Caller) {
    let body = json!({"amount": caller.world.amount(), "currency": currency(caller), "description": "Tea"});
    let Some(told) = caller.post("/v1/payment_links", body).await.filter(|told| told.status == 201) else { return };
    let (Some(id), Some(url)) = (told.body["id"].as_str(), told.body["url"].as_str()) else { return };
    let Some(path) = url.find("/pay/").map(|at| url[at..].to_owned()) else { return };
    let nature = match caller.random.below(10) {
        0 | 1 => Nature::Soft,
        2 => Nature::Partial,
        _ => Nature::Approves,
    };
    let Some(first) = cards::token(caller, nature).await else { return };
    let Some(second) = cards::token(caller, Nature::Approves).await else { return };
    let (mut a, mut b, mut c) = (caller.clone(), caller.clone(), caller.clone());
    let tip = if caller.random.percent(60) { "&tip=1" } else { "" };
    let (first, second) = (format!("token={first}{tip}"), format!("token={second}"));
    if caller.random.percent(25) {
        let cancel = format!("/v1/payment_links/{id}/cancel");
        tokio::join!(a.submit(&path, &first), c.post(&cancel, Value::Null));
    } else {
        tokio::join!(a.submit(&path, &first), b.submit(&path, &second));
    }
    if caller.random.percent(30) {
        caller.submit(&path, &first).await;
    }
}
