//! Challenges at the card gateway.

use serde_json::Value;

use super::fixture::{Fixture, violations};
use super::reports;
use crate::check::Challenged;
use crate::client::Response;
use crate::history::{Content, Request, get};

/// The SHA-256 of `secret`.
const PAGE: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

/// A charge, and what a cardholder chose on the page with this secret; the bank returned with the address `location`.
fn decided(fixture: &mut Fixture, decision: &str, secret: &str, location: &str, is_charged: bool) {
    let content = Content::Form(format!("decision={decision}"));
    fixture.request(Request { content, ..get("{bank.0.bank}") }, 303, Value::Null);
    let last = fixture.responses.len() - 1;
    let response = fixture.response(last);
    response.sent.0 = format!("/services/3ds/{secret}");
    response.headers = [("location".to_owned(), location.to_owned())].into();
    let page = Some(PAGE.to_owned());
    fixture.books.challenged.push(Challenged { reference: None, page, is_charged });
}

const SUCCESS: &str = "http://127.0.0.1:8080/pay/a/x/return?transaction_id=1&code=00&description=Success";
const REFUSAL: &str = "http://127.0.0.1:8080/pay/a/x/return?transaction_id=1&code=12&description=No";

#[test]
fn only_what_a_cardholder_confirms_is_charged() {
    let text = "no cardholder has confirmed it";
    let none = [] as [&str; 0];
    assert_eq!(violations(|fixture| decided(fixture, "confirm", "secret", SUCCESS, true)), none);
    assert_eq!(violations(|fixture| decided(fixture, "refuse", "secret", REFUSAL, false)), none);
    reports(text, |fixture| decided(fixture, "refuse", "secret", REFUSAL, true));
    reports(text, |fixture| decided(fixture, "confirm", "another", REFUSAL, true));
    reports(text, |fixture| fixture.books.challenged.push(Challenged { is_charged: true, ..Challenged::default() }));
    reports("and nothing was charged", |fixture| decided(fixture, "confirm", "secret", SUCCESS, false));
    // Without a response nobody knows which page it was.
    let lost = |fixture: &mut Fixture| {
        decided(fixture, "confirm", "another", REFUSAL, true);
        *fixture.responses.last_mut().expect("a response") = Some(Response::Lost);
    };
    assert!(!violations(lost).iter().any(|violation| violation.contains(text)));
}
