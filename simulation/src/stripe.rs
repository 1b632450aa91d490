//! The events and the ledger of Stripe.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::card_field::DISPUTED_TWICE;
use crate::check::{AtStripe, Line, ProviderDispute};
use crate::clock;
use crate::history::Provider;
use crate::issuers::{Issuers, Phase};
use crate::random::Random;
use crate::shop::Shop;
use crate::system::API;

/// How often events are delivered while there are faults.
const INTERVAL: Duration = Duration::from_millis(500);
/// And after that.
const LATER: Duration = Duration::from_secs(300);

/// Delivers events to api, each at least once if api responds, but some late, twice or in another order. Until it is
/// `healthy`, some are lost for ever, and issuers act.
pub async fn deliver_events(shop: Shop, mut random: Random, issuers: Issuers, healthy: Arc<AtomicBool>) -> Infallible {
    let endpoint = format!("http://{}/hooks/stripe/{}", SocketAddr::from(API), shop.account);
    let mut waiting: Vec<Value> = Vec::new();
    loop {
        let was_healthy = healthy.load(Ordering::Relaxed);
        sleep(if was_healthy { LATER } else { INTERVAL }).await;
        let Some((stripe, keys)) = &shop.stripe else { continue };
        if !was_healthy {
            issuers.act(if healthy.load(Ordering::Relaxed) { Phase::Healed } else { Phase::Faults });
        }
        waiting.extend(stripe.take_events(keys));
        for event in std::mem::take(&mut waiting) {
            let is_lost = random.one_in(8) && !healthy.load(Ordering::Relaxed);
            let is_late = random.one_in(4);
            if is_lost {
                continue;
            }
            let statuses = match is_late {
                true => Ok(Vec::new()),
                false => stripe.deliver(keys, &endpoint, std::slice::from_ref(&event)).await,
            };
            let is_accepted = statuses.is_ok_and(|statuses| statuses.iter().any(|status| *status < 300));
            if !is_accepted || random.one_in(8) {
                waiting.push(event);
            }
        }
    }
}

/// What Stripe did, with our reference of each line. A cancellation has none and is shown by its charge alone.
pub fn ledger(shop: &Shop) -> Vec<(String, Line)> {
    let Some((stripe, keys)) = &shop.stripe else { return Vec::new() };
    let objects = |kind| stripe.objects(keys, kind);
    let (charges, refunds, transactions) = (objects("charge"), objects("refund"), objects("balance_transaction"));
    let by_id = |objects: &[Value], id: &Value| objects.iter().find(|object| object["id"] == *id).cloned();
    let booked_us = |object: &Value| {
        let id = object["id"].as_str().unwrap_or_default();
        stripe.added(keys, id).unwrap_or_default() * 1_000
    };
    let mut lines = Vec::new();
    for intent in objects("payment_intent") {
        let Some(charge) = by_id(&charges, &intent["latest_charge"]) else { continue };
        let of_intent = |refund: &&Value| refund["payment_intent"] == intent["id"] && refund["status"] == "succeeded";
        let (id, is_sale) = (text(&intent["id"]), intent["capture_method"] != "manual");
        let line = |kind: &str, of: &Value, amount: &Value| Line {
            provider: Provider::Stripe,
            kind: kind.to_owned(),
            approved: true,
            amount: amount.as_i64().unwrap_or_default(),
            currency: text(&of["currency"]).to_uppercase(),
            occurred_ms: of["created"].as_i64().unwrap_or_default() * 1_000,
            booked_us: booked_us(of),
            ..Line::default()
        };
        let transaction = by_id(&transactions, &charge["balance_transaction"]);
        let available_on = transaction.as_ref().and_then(|transaction| transaction["available_on"].as_i64());
        let has_expired = intent["status"] == "canceled" && intent["cancellation_reason"] == "expired";
        let is_voided = (intent["status"] == "canceled" && !has_expired)
            || refunds.iter().filter(of_intent).any(|refund| refund["metadata"]["void"].is_string());
        let now = i64::try_from(clock::now_us() / 1_000_000).unwrap_or(i64::MAX);
        let approved = charge["status"] == "succeeded";
        let charged = Line {
            id: id.clone(),
            approved,
            decline_code: (!approved).then(|| decline_code(&intent["last_payment_error"])),
            settled: !is_voided && available_on.is_some_and(|at| at <= now),
            expired: has_expired,
            voided: is_voided,
            ..line(if is_sale { "sale" } else { "authorize" }, &charge, &intent["amount"])
        };
        lines.push((text(&intent["metadata"]["reference"]), charged));
        if let Some(transaction) = transaction.filter(|_| !is_sale) {
            let captured = Line {
                id: format!("{id}:capture"),
                parent: Some(id.clone()),
                ..line("capture", &transaction, &intent["amount_received"])
            };
            lines.push((text(&intent["metadata"]["follow_up"]), captured));
        }
        for refund in refunds.iter().filter(of_intent) {
            let kind = if refund["metadata"]["void"].is_string() { "void" } else { "refund" };
            let returned =
                Line { id: text(&refund["id"]), parent: Some(id.clone()), ..line(kind, refund, &refund["amount"]) };
            lines.push((text(&refund["metadata"]["reference"]), returned));
        }
    }
    lines
}

/// All that is checked of Stripe.
pub fn books(shop: &Shop) -> AtStripe {
    AtStripe { ledger: ledger(shop), saved: saved(shop), disputes: disputes(shop) }
}

/// The disputes there, with our reference of each charge.
pub fn disputes(shop: &Shop) -> Vec<(String, ProviderDispute)> {
    let Some((stripe, keys)) = &shop.stripe else { return Vec::new() };
    let intents = stripe.objects(keys, "payment_intent");
    let read = |dispute: &Value| {
        let intent = intents.iter().find(|intent| intent["id"] == dispute["payment_intent"])?;
        let card = intent["payment_method"].as_str()?;
        let moved = dispute["balance_transactions"].as_array().into_iter().flatten();
        let theirs = ProviderDispute {
            id: text(&dispute["id"]),
            amount: dispute["amount"].as_i64().unwrap_or_default(),
            currency: text(&dispute["currency"]).to_uppercase(),
            status: text(&dispute["status"]),
            is_decided_twice: shop.acting(card).as_deref() == Some(DISPUTED_TWICE),
            withdrawn: -moved.filter_map(|part| part["amount"].as_i64()).sum::<i64>(),
            ..ProviderDispute::default()
        };
        Some((text(&intent["metadata"]["reference"]), theirs))
    };
    stripe.objects(keys, "dispute").iter().filter_map(read).collect()
}

/// Our references of the cards that were saved for later charges, once for each time.
fn saved(shop: &Shop) -> Vec<String> {
    let Some((stripe, keys)) = &shop.stripe else { return Vec::new() };
    stripe.objects(keys, "setup_intent").iter().map(|intent| text(&intent["metadata"]["reference"])).collect()
}

/// Our name of the reason.
fn decline_code(error: &Value) -> String {
    match error["decline_code"].as_str() {
        Some("generic_decline") => "declined".to_owned(),
        Some(code) => code.to_owned(),
        None => String::new(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
