//! Payers whose card is to be charged for the renewals of a subscription.

use serde_json::json;

use super::DURATION;
use crate::history::{Content, Request, SECOND, TimedRequest, delete, get, post};
use crate::random::Random;

/// These requests have random numbers of their own, and kinds of objects of their own: all others of a history are the
/// same with and without them.
pub(super) const STREAM: u64 = 1;

/// The token of the customer's card, if there is one when the subscription begins. Most do not pay, so that its invoice is open.
const FIRST_TOKENS: [Option<&str>; 5] =
    [None, Some("tok_declined"), Some("tok_insufficient"), Some("tok_insufficient"), Some("tok_ok")];

/// The tokens of payers on the page.
const PAGE_TOKENS: [&str; 6] = ["tok_ok", "tok_ok", "tok_ok", "tok_partial", "tok_declined", "tok_insufficient"];

/// A subscription with an invoice, and those who pay on its page.
pub(super) fn subscriber(number: u64, random: &mut Random, requests: &mut Vec<TimedRequest>) {
    let begin = random.below(DURATION / 4);
    let mut add = |at: u64, request: Request| requests.push(TimedRequest { at: begin + at, request });
    let shows = |kind: &str, request: Request| Request { creates: Some(format!("{kind}_{number}")), ..request };
    let [customer, plan, card, subscription, invoice] =
        ["customer", "plan", "card", "subscription", "invoice"].map(|kind| format!("{{{kind}_{number}.0}}"));

    let (interval, count) = random.of(&[("day", 3), ("week", 1), ("month", 1)]);
    let body = json!({"name": "Silver", "amount": 1_000 + random.below(9_000), "currency": "USD", "interval": interval,
        "intervalCount": count});
    add(0, shows("plan", post("/v1/plans", body)));
    add(0, shows("customer", post("/v1/customers", json!({"email": "grace@example.com", "name": "Grace Hopper"}))));
    let mut body = json!({"customerId": customer, "planId": plan});
    if let Some(token) = random.of(&FIRST_TOKENS) {
        let saved = json!({"customerId": customer, "paymentToken": token});
        add(3 * SECOND / 10, shows("card", post("/v1/payment_methods", saved)));
        if random.one_in(3) {
            body["paymentMethodId"] = card.clone().into();
        }
    }
    add(4 * SECOND / 5, shows("subscription", post("/v1/subscriptions", body)));
    let path = format!("/v1/invoices/{{subscription_{number}.0.latestInvoiceId}}");
    add(3 * SECOND / 2, shows("invoice", get(path)));

    let page = format!("{{invoice_{number}.0.url}}");
    for (at, form) in forms(random) {
        add(at, Request { content: Content::Form(form), ..get(page.clone()) });
    }
    let others = [
        post(format!("/v1/invoices/{invoice}/void"), json!({})),
        post(format!("/v1/subscriptions/{subscription}/cancel"), json!({})),
        post(format!("/v1/payment_methods/{card}/default"), json!({})),
        delete(format!("/v1/payment_methods/{card}")),
    ];
    for request in others {
        let at = 2 * SECOND + random.below(3 * SECOND);
        if random.one_in(6) {
            add(at, request);
        }
    }
    for path in [format!("/v1/payment_methods?customerId={customer}"), page] {
        add(2 * SECOND + random.below(3 * SECOND), get(path));
    }
    // The next cycles are collected with the card that has paid.
    if random.one_in(2) {
        let to = random.of(&["2026-02-08T06:00:00Z", "2026-03-04T06:00:00Z"]);
        add(DURATION, post("/v1/test_clock/advance", json!({"to": to})));
    }
}

/// What payers submit: one after the other, some twice, and some at the same time as another one.
fn forms(random: &mut Random) -> Vec<(u64, String)> {
    let mut at = 2 * SECOND;
    let mut forms = Vec::new();
    for _ in 0..=random.below(3) {
        at += random.below(SECOND);
        let form = format!("token={}&renewals=1", random.of(&PAGE_TOKENS));
        if random.one_in(3) {
            forms.push((at, form.clone()));
        }
        if random.one_in(3) {
            let renewals = random.of(&["", "&renewals=1"]);
            forms.push((at, format!("token={}{renewals}", random.of(&PAGE_TOKENS))));
        }
        forms.push((at, form));
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{FORGOTTEN, generate};
    use crate::history::{Fault, History};

    #[test]
    fn some_histories_have_them_unless_stripe_forgets() {
        let has_them = |history: &History| {
            let is_one =
                |step: &TimedRequest| matches!(&step.request.content, Content::Form(form) if form.contains("renewals"));
            history.requests.iter().any(is_one)
        };
        let forgets = |history: &History| {
            history.faults.iter().any(|step| matches!(step.fault, Fault::Provider { duration: FORGOTTEN, .. }))
        };
        let histories: Vec<History> = (0..300).map(generate).collect();
        assert!(histories.iter().any(&forgets));
        assert!(!histories.iter().any(|history| forgets(history) && has_them(history)));
        let count = histories.iter().filter(|history| has_them(history)).count();
        assert!((50..150).contains(&count), "{count} of {}", histories.len());
    }
}
