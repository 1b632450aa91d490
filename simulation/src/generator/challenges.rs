//! Payments for which the issuer requires a challenge of the cardholder: at Stripe, where its double answers, and at the
//! pages of the card gateway's bank.

use serde_json::json;

use super::DURATION;
use crate::card_field::CHALLENGED;
use crate::history::{Content, Request, SECOND, TimedRequest, get, post};
use crate::random::Random;

/// As for renewals: all others of a history are the same with and without these requests.
pub(super) const STREAM: u64 = 4;
/// And those on pages are a stream of their own.
pub(super) const PAGE_STREAM: u64 = 6;

/// More than any other request charges, since an amount identifies its request.
const LEAST: u64 = 90_000;
/// Likewise, of those on pages.
const LEAST_ON_PAGE: u64 = 100_000;

/// What a cardholder chooses on the page of the bank: nothing, or in the same moment both, or the same twice.
const DECISIONS: [&[&str]; 6] =
    [&[], &["refuse"], &["confirm"], &["confirm"], &["confirm", "confirm"], &["confirm", "refuse"]];

/// A payment whose cardholder opens the challenge, and returns from it; both at times, and repeatedly.
pub(super) fn payment(number: u64, random: &mut Random, requests: &mut Vec<TimedRequest>) {
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

/// A cardholder who pays through the API, or on the page of an invoice or a link, and at times again in another browser.
/// Each time the browser is sent to the bank and back, or stays there.
pub(super) fn cardholder(number: u64, random: &mut Random, requests: &mut Vec<TimedRequest>) {
    let begin = random.below(DURATION / 2);
    let mut add = |at: u64, request: Request| requests.push(TimedRequest { at: begin + at, request });
    let [customer, payable, away, bank] =
        ["bank_customer", "bank_payable", "away", "bank"].map(|kind| format!("{kind}_{number}"));
    let shows = |kind: &str, request: Request| Request { creates: Some(kind.to_owned()), ..request };

    let mut body = json!({"amount": LEAST_ON_PAGE + 1_000 * number + random.below(1_000), "currency": "USD"});
    let content = Content::Form(format!("token={CHALLENGED}"));
    let form = Request { content, ..get(format!("{{{payable}.0.url}}")) };
    let payment = match random.below(3) {
        0 => {
            body["paymentToken"] = CHALLENGED.into();
            post("/v1/payments", body)
        }
        1 => {
            let payer = json!({"email": "emmy@example.com", "name": "Emmy Noether"});
            add(0, shows(&customer, post("/v1/customers", payer)));
            body["customerId"] = format!("{{{customer}.0}}").into();
            add(3 * SECOND / 10, shows(&payable, post("/v1/invoices", body)));
            form
        }
        _ => {
            body["description"] = "A journey".into();
            add(3 * SECOND / 10, shows(&payable, post("/v1/payment_links", body)));
            form
        }
    };
    for browser in 0..=u64::from(random.one_in(3)) {
        let begin = SECOND + browser * (SECOND / 2 + random.below(SECOND));
        add(begin, shows(&away, payment.clone()));
        let (challenge, page) = (format!("{{{away}.{browser}.nextAction}}"), format!("{{{bank}.{browser}.bank}}"));
        add(begin + SECOND, shows(&bank, get(challenge.clone())));
        let decided = begin + 3 * SECOND / 2 + random.below(SECOND);
        for decision in random.of(&DECISIONS) {
            let content = Content::Form(format!("decision={decision}"));
            add(decided, Request { content, ..get(page.clone()) });
        }
        // Some return before they have decided, repeatedly or never, and some open the page of the bank again.
        for at in [0, SECOND] {
            if random.one_in(2) {
                add(decided + at - random.below(SECOND / 2), get(format!("{challenge}/return")));
            }
        }
        if random.one_in(3) {
            add(decided + random.below(2 * SECOND), get(page));
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
            let is_one = |step: &TimedRequest| step.request.path.contains("{challenged_");
            history.requests.iter().any(is_one)
        };
        let histories: Vec<History> = (0..300).map(generate).collect();
        assert!(!histories.iter().any(|history| has_them(history) && !history.uses(Provider::Stripe)));
        let count = histories.iter().filter(|history| has_them(history)).count();
        assert!((10..100).contains(&count), "{count} of {}", histories.len());
    }

    #[test]
    fn some_histories_have_them_at_pages_of_banks() {
        let has_them = |history: &History| {
            let is_one = |step: &TimedRequest| step.request.path.contains("{bank_");
            history.requests.iter().any(is_one)
        };
        let histories: Vec<History> = (0..300).map(generate).collect();
        assert!(!histories.iter().any(|history| history.uses_only(Provider::Mock) && has_them(history)));
        let count = histories.iter().filter(|history| has_them(history)).count();
        assert!((40..130).contains(&count), "{count} of {}", histories.len());
    }
}
