//! Payments with and without keys, and their captures, voids and refunds.

use std::time::Duration;

use reqwest::{Method, redirect::Policy};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    caller::{Caller, Response},
    cards::{self, CardBehavior, Customer},
};

/// The id of a card that does not exist.
const UNKNOWN_CARD: &str = "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// One payment, sometimes with follow-up operations.
pub(super) async fn pay(caller: &mut Caller, customers: &[Customer]) {
    let Some(body) = payment_body(caller, customers).await else { return };
    let response =
        if caller.random.percent(60) { pay_with_key(caller, body).await } else { pay_without_key(caller, body).await };
    let Some(response) = response.filter(|response| response.status == 201) else { return };
    let Some(id) = response.body["id"].as_str().map(str::to_owned) else { return };
    if caller.random.percent(50) {
        follow_up(caller, &id, &response.body).await;
    }
}

/// A currency of the shop.
pub(super) fn currency(caller: &mut Caller) -> &'static str {
    let currencies = caller.shop().kind.currencies();
    caller.random.of(currencies)
}

async fn payment_body(caller: &mut Caller, customers: &[Customer]) -> Option<Value> {
    let capture = caller.random.percent(70);
    let mut body = json!({"amount": caller.load.amount(), "currency": currency(caller), "capture": capture});
    let customers: Vec<&Customer> =
        customers.iter().filter(|customer| customer.behavior != CardBehavior::Partial).collect();
    if caller.random.percent(3) {
        body["paymentMethodId"] = UNKNOWN_CARD.into();
    } else if !customers.is_empty() && caller.random.percent(25) {
        let customer = customers[caller.random.index(customers.len())];
        body["paymentMethodId"] = customer.card.clone().into();
    } else {
        let behavior = match caller.random.below(20) {
            0 | 1 => CardBehavior::Soft,
            2 => CardBehavior::Hard,
            3 | 4 => CardBehavior::Partial,
            _ => CardBehavior::Approves,
        };
        let token = if behavior == CardBehavior::Approves && caller.random.percent(25) {
            cards::single_use_token(caller).await?
        } else {
            cards::token(caller, behavior).await?
        };
        body["paymentToken"] = token.into();
    }
    Some(body)
}

/// A payment with an idempotency key, retried until its outcome is known; sometimes sent five times at once.
async fn pay_with_key(caller: &mut Caller, body: Value) -> Option<Response> {
    let key = format!("order-{}", body["amount"]);
    if caller.random.percent(15) {
        let mut others: Vec<Caller> = Vec::new();
        for _ in 0..5 {
            let mut other = caller.clone();
            other.random = caller.random.fork();
            others.push(other);
        }
        let [a, b, c, d, e] = others.get_disjoint_mut([0, 1, 2, 3, 4]).ok()?;
        let send = |other: &mut Caller| {
            let (mut other, key, body) = (other.clone(), key.clone(), body.clone());
            async move { other.call(Method::POST, "/v1/payments", Some(&key), body).await }
        };
        let _ = tokio::join!(send(a), send(b), send(c), send(d), send(e));
    }
    let response = caller.call_with_retries(Method::POST, "/v1/payments", Some(&key), body.clone()).await;
    if caller.random.percent(25) {
        caller.call_with_retries(Method::POST, "/v1/payments", Some(&key), body).await;
    }
    response
}

/// A payment without a key. A single-use token prevents a second charge, so only such requests are repeated.
async fn pay_without_key(caller: &mut Caller, body: Value) -> Option<Response> {
    let is_single_use =
        body["paymentToken"].as_str().is_some_and(|token| !token.starts_with("tok_") && !token.starts_with("pm_card_"));
    match caller.random.below(3) {
        0 if is_single_use => {
            let mut other = caller.clone();
            let (first, second) =
                tokio::join!(caller.post("/v1/payments", body.clone()), other.post("/v1/payments", body.clone()));
            first.filter(|response| response.status == 201).or(second)
        }
        1 if is_single_use => {
            let first = caller.post("/v1/payments", body.clone()).await;
            let second = caller.post("/v1/payments", body).await;
            first.filter(|response| response.status == 201).or(second)
        }
        _ => caller.post("/v1/payments", body).await,
    }
}

async fn follow_up(caller: &mut Caller, id: &str, payment: &Value) {
    let amount = payment["amount"].as_i64().unwrap_or(0);
    if ["authorized", "partially_authorized"].contains(&payment["status"].as_str().unwrap_or_default())
        && payment["amountCaptured"] == 0
    {
        match caller.random.below(4) {
            0 => void(caller, id).await,
            1 => capture_and_void(caller, id).await,
            _ => capture(caller, id, amount).await,
        }
        caller.pause(50, 500).await;
    }
    match caller.random.below(6) {
        0 => void(caller, id).await,
        1 | 2 => refund(caller, id, amount).await,
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

/// A capture and a void at the same time: only one can succeed.
async fn capture_and_void(caller: &mut Caller, id: &str) {
    let (mut capturing, mut voiding) = (caller.clone(), caller.clone());
    let (capture, void) = (format!("/v1/payments/{id}/capture"), format!("/v1/payments/{id}/void"));
    tokio::join!(capturing.post(&capture, json!({})), voiding.post(&void, Value::Null));
    caller.pause(1, 2).await;
}

/// Three refunds at once that together exceed the captured amount.
async fn refund(caller: &mut Caller, id: &str, amount: i64) {
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

/// A payment with a challenge, which the cardholder confirms, refuses or abandons.
pub(super) async fn challenged(caller: &mut Caller) {
    let Some(token) = cards::token(caller, CardBehavior::Challenged).await else { return };
    let capture = caller.random.percent(70);
    let body = json!({"amount": caller.load.amount(), "currency": "USD", "paymentToken": token, "capture": capture});
    let Some(response) = pay_with_key(caller, body).await else { return };
    let Some(url) = response.body["nextAction"]["url"].as_str().map(str::to_owned) else { return };
    let decision = caller.random.of(&["confirm", "confirm", "refuse", ""]);
    if decision.is_empty() {
        return;
    }
    // Failures here are for the service to handle.
    let _ = timeout(Duration::from_secs(20), decide(&url, decision)).await;
}

async fn decide(url: &str, decision: &str) -> anyhow::Result<()> {
    let browser = reqwest::Client::builder().redirect(Policy::none()).build()?;
    let to = |response: &reqwest::Response| {
        response.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or_default().to_owned()
    };
    let bank = to(&browser.get(url).send().await?);
    let form = format!("decision={decision}");
    let post = browser.post(bank).header("content-type", "application/x-www-form-urlencoded").body(form);
    let back = to(&post.send().await?);
    browser.get(back).send().await?;
    Ok(())
}
