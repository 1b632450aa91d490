//! docs/billing.md, Payment pages: a card that a payer chooses for renewals becomes the default card with the approval of
//! its payment in full. Otherwise it is never active, shown nowhere and not charged again.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Evidence, PageCard, Violations};
use crate::client::{ReceivedResponse, Response};
use crate::history::{Content, Request};

const MAKE_DEFAULT: &str = "POST /v1/payment_methods/{id}/default";

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    let cards = &evidence.books.page_cards;
    // The last card that became active, of each customer and each subscription.
    let mut last: BTreeMap<&str, &PageCard> = BTreeMap::new();
    for card in cards {
        let of_payment = cards.iter().filter(|other| other.payment == card.payment).count();
        violations.check(of_payment == 1, || format!("{of_payment} cards were saved with one payment: {card:?}"));
        violations.check(card.stored <= 1, || format!("the provider has saved a card {} times: {card:?}", card.stored));
        let Some(payment) = evidence.state.objects.get(&card.payment) else {
            violations.0.push(format!("the payment of {card:?} is not shown"));
            continue;
        };
        accepted(evidence, card, payment, violations);
        if card.accepted_us.is_some() {
            for owner in [payment["customerId"].as_str(), subscription_id(evidence, payment)].into_iter().flatten() {
                last.insert(owner, card);
            }
        }
    }
    violations.check(evidence.books.surplus_cards == 0, || {
        format!("the card gateway has saved {} cards more than requested", evidence.books.surplus_cards)
    });
    for (owner, card) in last {
        match evidence.state.objects.get(owner) {
            Some(subscription) if subscription["object"] == "subscription" => {
                named_card(evidence, subscription, card, violations);
            }
            Some(_) | None => default_card(evidence, owner, card, violations),
        }
    }
    for (request, response) in evidence.responses() {
        submitted(evidence, request, response, violations);
    }
}

fn subscription_id<'a>(evidence: &'a Evidence<'_>, payment: &Value) -> Option<&'a str> {
    evidence.state.objects.get(payment["invoiceId"].as_str()?)?["subscriptionId"].as_str()
}

/// The card becomes active if its payment is approved in full, unless the subscription was cancelled meanwhile. It is shown
/// and announced once if it became active, and only then.
fn accepted(evidence: &Evidence<'_>, card: &PageCard, payment: &Value, violations: &mut Violations) {
    let is_approved = !["processing", "declined", "failed"].contains(&payment["status"].as_str().unwrap_or_default());
    let is_in_full = is_approved && payment["amount"] == payment["amountRequested"];
    let is_accepted = card.accepted_us.is_some();
    let subscription = subscription_id(evidence, payment).and_then(|id| evidence.state.objects.get(id));
    let is_cancelled = subscription.is_some_and(|subscription| subscription["status"] == "cancelled");
    violations.check(is_accepted == is_in_full || is_in_full && is_cancelled, || {
        format!("a card became active without an approval in full, or reverse: {card:?}, {payment}")
    });
    let is_kept = is_accepted && !evidence.is_detached(&card.card);
    violations.check((card.status == "active") == is_kept, || {
        format!("the card of a payment is {} at the end: {card:?}, {payment}", card.status)
    });
    violations.check(evidence.state.objects.contains_key(&card.card) == is_kept, || {
        format!("the card of a payment is listed without an approval in full, or reverse: {card:?}, {payment}")
    });
    let announces = |event: &&Value| {
        event["type"] == "payment_method.created" && event["data"]["object"]["id"] == card.card.as_str()
    };
    let announced = evidence.books.events.iter().filter(announces).count();
    violations.check(announced == usize::from(is_accepted), || {
        format!("{announced} events announce the card of a payment: {card:?}, {payment}")
    });
    violations.check(is_accepted || card.charged_again == 0, || {
        format!("a card was charged again although it never became active: {card:?}, {payment}")
    });
    for (request, response) in evidence.responses().filter(|(_, response)| shows(response, &card.card)) {
        let is_early = card.accepted_us.is_none_or(|at| response.received_us.cast_signed() < at);
        violations.check(!is_early, || format!("{request} shows the card of a payment before its approval: {card:?}"));
    }
}

fn shows(response: &ReceivedResponse, card: &str) -> bool {
    let listed = response.json["data"].as_array().into_iter().flatten();
    std::iter::once(&response.json).chain(listed).any(|object| object["id"] == card)
}

/// The card that has paid last is the default card, unless a request has chosen another one since its payment began.
fn default_card(evidence: &Evidence<'_>, customer: &str, card: &PageCard, violations: &mut Violations) {
    let mut possible = vec![card.card.as_str()];
    let requests = evidence.history.requests.iter().zip(evidence.responses);
    for (_, response) in requests.filter(|(timed, _)| timed.request.operation() == MAKE_DEFAULT) {
        match response {
            // It may have chosen any card, at any time.
            Some(Response::Lost) | None => return,
            Some(Response::Received(response)) if response.status >= 500 => return,
            Some(Response::Received(response)) if response.status < 300 => {
                if response.received_us.cast_signed() >= card.begun_us {
                    possible.extend(response.json["id"].as_str());
                }
            }
            Some(Response::Received(_) | Response::Skipped) => {}
        }
    }
    // The default card passes to no other one if it is detached.
    if possible.iter().any(|id| evidence.is_detached(id)) {
        return;
    }
    let is_default = |shown: &&Value| shown["customerId"] == customer && shown["isDefault"] == true;
    let defaults: Vec<&Value> = evidence.state.all("payment_method").filter(is_default).collect();
    let is_right = defaults.iter().any(|shown| possible.iter().any(|id| shown["id"] == *id));
    violations.check(is_right, || {
        format!("the card that has paid for renewals is not the default card: {card:?}, but {defaults:?}")
    });
}

/// A subscription that names a card names the one that has paid last.
fn named_card(evidence: &Evidence<'_>, subscription: &Value, card: &PageCard, violations: &mut Violations) {
    let named = subscription["paymentMethodId"].as_str();
    let is_right = named.is_none_or(|named| named == card.card) || evidence.is_detached(&card.card);
    violations.check(is_right || subscription["status"] == "cancelled", || {
        format!("the subscription does not name the card that has paid for renewals: {card:?}, {subscription}")
    });
}

/// A payment that began with the box has saved its card, or has tried to, if the subscription continues.
fn submitted(evidence: &Evidence<'_>, request: &Request, response: &ReceivedResponse, violations: &mut Violations) {
    let is_chosen = matches!(&request.content, Content::Form(form) if form.contains("renewals="));
    let location = response.headers.get("location").filter(|_| is_chosen);
    let Some((_, id)) = location.and_then(|location| location.split_once("payment=")) else { return };
    let Some(payment) = evidence.state.objects.get(id) else { return };
    let subscription = subscription_id(evidence, payment).and_then(|id| evidence.state.objects.get(id));
    let continues = subscription.is_some_and(|subscription| subscription["status"] != "cancelled");
    let is_saved = evidence.books.page_cards.iter().any(|card| card.payment == id);
    violations
        .check(is_saved || !continues, || format!("{request} began a payment without saving its card: {payment}"));
}
