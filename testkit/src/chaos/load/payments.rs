//! Payments with and without keys, and what follows them: captures, voids, refunds.

use std::time::Duration;

use reqwest::{Method, redirect::Policy};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    super::caller::{Caller, Told},
    cards::{self, Customer, Nature},
};

/// A card that no account has.
const NOBODYS_CARD: &str = "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// One payment, and perhaps what follows.
pub(super) async fn pay(caller: &mut Caller, customers: &[Customer]) {
    let Some(body) = body(caller, customers).await else { return };
    let told = if caller.random.percent(60) { with_key(caller, body).await } else { without_key(caller, body).await };
    let Some(told) = told.filter(|told| told.status == 201) else { return };
    let Some(id) = told.body["id"].as_str().map(str::to_owned) else { return };
    if caller.random.percent(50) {
        follow(caller, &id, &told.body).await;
    }
}

/// One of those that the shop is paid in.
pub(super) fn currency(caller: &mut Caller) -> &'static str {
    let currencies = caller.shop().line.currencies();
    caller.random.of(currencies)
}

async fn body(caller: &mut Caller, customers: &[Customer]) -> Option<Value> {
    let capture = caller.random.percent(70);
    let mut body = json!({"amount": caller.world.amount(), "currency": currency(caller), "capture": capture});
    let customers: Vec<&Customer> = customers.iter().filter(|customer| customer.nature != Nature::Partial).collect();
    if caller.random.percent(3) {
        body["paymentMethodId"] = NOBODYS_CARD.into();
    } else if !customers.is_empty() && caller.random.percent(25) {
        let customer = customers[caller.random.index(customers.len())];
        body["paymentMethodId"] = customer.card.clone().into();
    } else {
        let nature = match caller.random.below(20) {
            0 | 1 => Nature::Soft,
            2 => Nature::Hard,
            3 | 4 => Nature::Partial,
            _ => Nature::Approves,
        };
        let token = if nature == Nature::Approves && caller.random.percent(25) {
            cards::once(caller).await?
        } else {
            cards::token(caller, nature).await?
        };
        body["paymentToken"] = token.into();
    }
    Some(body)
}

/// Under a key of its own, again and again until it is known; sometimes by five at once.
async fn with_key(caller: &mut Caller, body: Value) -> Option<Told> {
    let key = format!("order-{}", body["amount"]);
    if caller.random.percent(15) {
        let mut others: Vec<Caller> = Vec::new();
        for _ in 0..5 {
            let mut other = caller.clone();
            other.random = super::super::random::Random::new(caller.random.below(u64::MAX), 5);
            others.push(other);
        }
        let [a, b, c, d, e] = others.get_disjoint_mut([0, 1, 2, 3, 4]).ok()?;
        let ask = |one: &mut Caller| {
            let (mut one, key, body) = (one.clone(), key.clone(), body.clone());
            async move { one.call(Method::POST, "/v1/payments", Some(&key), body).await }
        };
        let _ = tokio::join!(ask(a), ask(b), ask(c), ask(d), ask(e));
    }
    let told = caller.insist(Method::POST, "/v1/payments", Some(&key), body.clone()).await;
    if caller.random.percent(25) {
        caller.insist(Method::POST, "/v1/payments", Some(&key), body).await;
    }
    told
}

/// Who repeats himself without a key is kept from paying twice by his token, where that is good once.
async fn without_key(caller: &mut Caller, body: Value) -> Option<Told> {
    let is_good_once = body["paymentToken"].as_str().is_some_and(|token| !token.starts_with("tok_"));
    match caller.random.below(3) {
        0 if is_good_once => {
            let mut other = caller.clone();
            let (one, two) =
                tokio::join!(caller.post("/v1/payments", body.clone()), other.post("/v1/payments", body.clone()));
            one.filter(|told| told.status == 201).or(two)
        }
        1 if is_good_once => {
            let told = caller.post("/v1/payments", body.clone()).await;
            let again = caller.post("/v1/payments", body).await;
            told.filter(|told| told.status == 201).or(again)
        }
        _ => caller.post("/v1/payments", body).await,
    }
}

async fn follow(caller: &mut Caller, id: &str, payment: &Value) {
    let amount = payment["amount"].as_i64().unwrap_or(0);
    if ["authorized", "partially_authorized"].contains(&payment["status"].as_str().unwrap_or_default())
        && payment["amountCaptured"] == 0
    {
        match caller.random.below(4) {
            0 => void(caller, id).await,
            1 => both(caller, id).await,
            _ => capture(caller, id, amount).await,
        }
        caller.pause(50, 500).await;
    }
    match caller.random.below(6) {
        0 => void(caller, id).await,
        1 | 2 => refunds(caller, id, amount).await,
        _ => {}
    }
}

async fn void(caller: &mut Caller, id: &str) {
    caller.post(&format!("/v1/payments/{id}/void"), Value::Null).await;
}

async fn capture(caller: &mut Caller, id: &str, amount: i64) {
    let body = if caller.random.percent(40) { json!({"amount": amount / 3 + 1}) } else { json!({}) };
    caller.post(&format!("/v1/payments/{id}/capture"), body).await;
}

/// A capture and a void at once: one of them is first.
async fn both(caller: &mut Caller, id: &str) {
    let (mut one, mut other) = (caller.clone(), caller.clone());
    let (captured, voided) = (format!("/v1/payments/{id}/capture"), format!("/v1/payments/{id}/void"));
    tokio::join!(one.post(&captured, json!({})), other.post(&voided, Value::Null));
    caller.pause(1, 2).await;
}

/// Three at once that together are more than was taken.
async fn refunds(caller: &mut Caller, id: &str, amount: i64) {
    let path = format!("/v1/payments/{id}/refund");
    if caller.random.percent(40) {
        caller.post(&path, json!({})).await;
        return;
    }
    let body = json!({"amount": amount * 2 / 5});
    let (mut a, mut b, mut c) = (caller.clone(), caller.clone(), caller.clone());
    tokio::join!(a.post(&path, body.clone()), b.post(&path, body.clone()), c.post(&path, body));
    caller.get(&format!("/v1/payments/{id}")).await;
}

/// A payment whose bank asks its holder, who confirms, refuses, or goes away.
pub(super) async fn challenged(caller: &mut Caller) {
    let Some(token) = cards::token(caller, Nature::Challenged).await else { return };
    let capture = caller.random.percent(70);
    let body = json!({"amount": caller.world.amount(), "currency": "USD", "paymentToken": token, "capture": capture});
    let Some(told) = with_key(caller, body).await else { return };
    let Some(url) = told.body["nextAction"]["url"].as_str().map(str::to_owned) else { return };
    let decision = caller.random.of(&["confirm", "confirm", "refuse", ""]);
    if decision.is_empty() {
        return;
    }
    // Whatever breaks on the way is for the service to find out.
    let _ = timeout(Duration::from_secs(20), decide(&url, decision)).await;
}

async fn decide(url: &str, decision: &str) -> anyhow::Result<()> {
    let browser = reqwest::Client::builder().redirect(Policy::none()).build()?;
    let to = |answer: &reqwest::Response| {
        answer.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or_default().to_owned()
    };
    let bank = to(&browser.get(url).send().await?);
    let form = format!("decision={decision}");
    let post = browser.post(bank).header("content-type", "application/x-www-form-urlencoded").body(form);
    let back = to(&post.send().await?);
    browser.get(back).send().await?;
    Ok(())
}
