//! Payment links, each paid by two payers at once or cancelled at the same time.

use serde_json::{Value, json};

use super::{
    caller::Caller,
    cards::{self, CardBehavior},
    payments::currency,
};

pub(super) async fn pay_link(caller: &mut Caller) {
    let body = json!({"amount": caller.load.amount(), "currency": currency(caller), "description": "Tea"});
    let Some(response) = caller.post("/v1/payment_links", body).await.filter(|response| response.status == 201) else {
        return;
    };
    let (Some(id), Some(url)) = (response.body["id"].as_str(), response.body["url"].as_str()) else { return };
    let Some(path) = url.find("/pay/").map(|at| url[at..].to_owned()) else { return };
    let behavior = match caller.random.below(10) {
        0 | 1 => CardBehavior::Soft,
        2 => CardBehavior::Partial,
        _ => CardBehavior::Approves,
    };
    let Some(first) = cards::token(caller, behavior).await else { return };
    let Some(second) = cards::token(caller, CardBehavior::Approves).await else { return };
    let (mut a, mut b, mut c) = (caller.clone(), caller.clone(), caller.clone());
    let tip = if caller.random.percent(60) { "&tip=1" } else { "" };
    let (first, second) = (format!("token={first}{tip}"), format!("token={second}"));
    if caller.random.percent(25) {
        let cancel = format!("/v1/payment_links/{id}/cancel");
        tokio::join!(a.post_form(&path, &first), c.post(&cancel, Value::Null));
    } else {
        tokio::join!(a.post_form(&path, &first), b.post_form(&path, &second));
    }
    if caller.random.percent(30) {
        caller.post_form(&path, &first).await;
    }
}
