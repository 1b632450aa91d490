//! Payments by cardholders who dispute them: through the API, and of invoices and links on their pages.

use serde_json::json;

use super::DURATION;
use crate::card_field::DISPUTED_TWICE;
use crate::history::{Content, Request, SECOND, TimedRequest, get, post};
use crate::random::Random;

/// As for renewals: all others of a history are the same with and without these requests.
const STREAM: u64 = 2;
/// And those on pages are a stream of their own.
pub(super) const PAGE_STREAM: u64 = 5;

/// Lost, won, and lost and later won.
const TOKENS: [&str; 5] = ["tok_disputed", "tok_disputed", "tok_disputed_won", "tok_disputed_won", DISPUTED_TWICE];

/// More than any other request charges, since an amount identifies its request.
const LEAST: u64 = 50_000;
/// Likewise, on a page.
const LEAST_ON_PAGE: u64 = 60_000;

/// One to three payments and what follows them; none in every second history.
pub(super) fn requests(seed: u64) -> Vec<TimedRequest> {
    let mut random = Random::stream(seed, STREAM);
    let mut requests = Vec::new();
    if random.one_in(2) {
        for number in 0..=random.below(3) {
            payment(number, &mut random, &mut requests);
        }
        for at in [DURATION / 2, DURATION] {
            requests.push(TimedRequest { at: at + random.below(SECOND), request: get("/v1/disputes?limit=2") });
        }
    }
    requests
}

/// A payment, whose money is returned at times, before or after the dispute begins.
fn payment(number: u64, random: &mut Random, requests: &mut Vec<TimedRequest>) {
    let (begin, kind) = (random.below(DURATION / 2), format!("disputed_{number}"));
    let mut add = |at: u64, request: Request| requests.push(TimedRequest { at: begin + at, request });
    let follow_up = |action: &str| format!("/v1/payments/{{{kind}.0}}/{action}");

    let amount = LEAST + 1_000 * number + random.below(1_000);
    let mut body = json!({"amount": amount, "currency": "USD", "paymentToken": random.of(&TOKENS)});
    let is_captured_later = random.one_in(3);
    if is_captured_later {
        body["capture"] = false.into();
    }
    add(0, Request { creates: Some(kind.clone()), ..post("/v1/payments", body) });
    if is_captured_later {
        let body = if random.one_in(2) { json!({"amount": LEAST / 2 + random.below(1_000)}) } else { json!({}) };
        add(SECOND, post(follow_up("capture"), body));
    }
    for at in [3 * SECOND / 2, 3 * SECOND] {
        let (at, body) = (at + random.below(SECOND), json!({"amount": 1 + random.below(LEAST / 3)}));
        if random.one_in(3) {
            add(at, post(follow_up("refund"), body));
        }
    }
    if random.one_in(8) {
        add(2 * SECOND, post(follow_up("void"), json!({})));
    }
}

/// An invoice or a link, its payer, who disputes the payment, at times another one, and what the merchant does after it.
pub(super) fn page(number: u64, random: &mut Random, requests: &mut Vec<TimedRequest>) {
    let (begin, is_link) = (random.below(DURATION / 2), random.one_in(2));
    let mut add = |at: u64, request: Request| requests.push(TimedRequest { at: begin + at, request });
    let [customer, payable, paid] = ["customer", "payable", "paid"].map(|kind| format!("disputed_{kind}_{number}"));
    let shows = |kind: &str, request: Request| Request { creates: Some(kind.to_owned()), ..request };

    let mut body = json!({"amount": LEAST_ON_PAGE + 1_000 * number + random.below(1_000), "currency": "USD"});
    let (path, stop) = if is_link { ("/v1/payment_links", "cancel") } else { ("/v1/invoices", "void") };
    if is_link {
        body["description"] = "A concert".into();
    } else {
        let payer = json!({"email": "alan@example.com", "name": "Alan Turing"});
        add(0, shows(&customer, post("/v1/customers", payer)));
        body["customerId"] = format!("{{{customer}.0}}").into();
    }
    add(3 * SECOND / 10, shows(&payable, post(path, body)));
    let form = |token: &str| {
        let content = Content::Form(format!("token={token}"));
        Request { content, ..get(format!("{{{payable}.0.url}}")) }
    };
    add(SECOND, form(random.of(&TOKENS)));
    if random.one_in(3) {
        add(SECOND + random.below(SECOND), form("tok_ok"));
    }
    // Shows the payment, which can be refunded then. A paid link cannot be cancelled.
    add(5 * SECOND / 2, shows(&paid, get(format!("{path}/{{{payable}.0}}"))));
    let refund = json!({"amount": 1 + random.below(LEAST_ON_PAGE / 3)});
    if random.one_in(3) {
        add(3 * SECOND, post(format!("/v1/payments/{{{paid}.0.paymentId}}/refund"), refund));
    }
    if random.one_in(4) {
        add(3 * SECOND, post(format!("{path}/{{{payable}.0}}/{stop}"), json!({})));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::generate;
    use crate::history::{History, Provider};

    #[test]
    fn some_histories_have_them_where_disputes_are_reported() {
        let has_them = |history: &History| {
            let is_one = |step: &TimedRequest| step.request.path.starts_with("/v1/disputes");
            history.requests.iter().any(is_one)
        };
        let histories: Vec<History> = (0..300).map(generate).collect();
        let at_gateway = |history: &&History| history.uses_only(Provider::CardGateway);
        assert!(histories.iter().any(|history| at_gateway(&history)));
        assert!(!histories.iter().filter(at_gateway).any(has_them));
        let count = histories.iter().filter(|history| has_them(history)).count();
        assert!((60..180).contains(&count), "{count} of {}", histories.len());
    }

    #[test]
    fn some_histories_have_them_on_pages() {
        let has_them = |history: &History| {
            let is_one =
                |step: &TimedRequest| matches!(&step.request.content, Content::Form(form) if form.contains("disputed"));
            history.requests.iter().any(is_one)
        };
        let histories: Vec<History> = (0..300).map(generate).collect();
        assert!(!histories.iter().any(|history| history.uses_only(Provider::CardGateway) && has_them(history)));
        let count = histories.iter().filter(|history| has_them(history)).count();
        assert!((40..130).contains(&count), "{count} of {}", histories.len());
    }
}
