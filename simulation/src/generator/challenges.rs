//! Payments for which the issuer requires a challenge of the cardholder.

use serde_json::json;

use super::DURATION;
use crate::card_field::CHALLENGED;
use crate::history::{Request, SECOND, TimedRequest, get, post};
use crate::random::Random;

/// As for renewals: all others of a history are the same with and without these requests.
const STREAM: u64 = 4;

/// More than any other request charges, since an amount identifies its request.
const LEAST: u64 = 90_000;

/// One or two payments; none in two of three histories.
pub(super) fn requests(seed: u64) -> Vec<TimedRequest> {
    let mut random = Random::stream(seed, STREAM);
    let mut requests = Vec::new();
    if random.one_in(3) {
        for number in 0..=random.below(2) {
            payment(number, &mut random, &mut requests);
        }
    }
    requests
}

/// A payment whose cardholder opens the challenge, and returns from it; both at times, and repeatedly.
fn payment(number: u64, random: &mut Random, requests: &mut Vec<TimedRequest>) {
    let (begin, kind) = (random.below(DURATION / 2), format!("challenged_{number}"));
    let mut add = |at: u64, request: Request| requests.push(TimedRequest { at: begin + at, request });
    let amount = LEAST + 1_000 * number + random.below(1_000);
    let mut body = json!({"amount": amount, "currency": "USD", "paymentToken": CHALLENGED});
    if random.one_in(3) {
        body["capture"] = false.into();
    }
    add(0, Request { creates: Some(kind.clone()), ..post("/v1/payments", body) });
    let page = format!("{{{kind}.0.nextAction}}");
    if random.one_in(2) {
        add(SECOND, get(page.clone()));
    }
    // A lost return is one that is never requested.
    for at in [3 * SECOND / 2, 3 * SECOND] {
        if random.one_in(2) {
            add(at + random.below(SECOND), get(format!("{page}/return")));
        }
    }
    // It can be captured, voided or refunded only once it has been authorized.
    let path = |action: &str| format!("/v1/payments/{{{kind}.0}}/{action}");
    for action in ["capture", "void", "refund"] {
        if random.one_in(4) {
            add(SECOND + random.below(4 * SECOND), post(path(action), json!({})));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::generate;
    use crate::history::{History, Provider};

    #[test]
    fn some_histories_have_them_at_stripe() {
        let has_them = |history: &History| {
            let is_one = |step: &TimedRequest| step.request.path.contains("nextAction");
            history.requests.iter().any(is_one)
        };
        let histories: Vec<History> = (0..300).map(generate).collect();
        assert!(!histories.iter().any(|history| has_them(history) && !history.uses(Provider::Stripe)));
        let count = histories.iter().filter(|history| has_them(history)).count();
        assert!((10..100).contains(&count), "{count} of {}", histories.len());
    }
}
