//! The card that a payer chooses for renewals.

use serde_json::{Value, json};

use super::fixture::{Fixture, id, violations};
use super::reports;
use crate::check::PageCard;
use crate::client::Response;
use crate::history::{Content, Request, get, post};

/// Fails unless a change of a payment with an accepted card is reported, and the payment alone is not.
fn reports_renewal(text: &str, change: impl FnOnce(&mut Fixture)) {
    reports(text, |fixture| {
        fixture.renewal();
        change(fixture);
    });
}

/// The card of payment 4, which was declined.
fn refused(fixture: &mut Fixture) {
    let (card, payment) = (id("pm", 4), id("pay", 4));
    fixture.books.page_cards.push(PageCard { card, payment, status: "failed".to_owned(), ..PageCard::default() });
}

fn reports_refused(text: &str, change: impl FnOnce(&mut Fixture)) {
    reports(text, |fixture| {
        refused(fixture);
        change(fixture);
    });
}

fn shown(number: u32, is_default: bool) -> Value {
    json!({"id": id("pm", number), "object": "payment_method", "livemode": false, "customerId": id("cus", 1),
        "createdAt": "2026-01-30T22:00:01.000Z", "status": "active", "last4": "4242", "isDefault": is_default})
}

#[test]
fn cards_for_renewals_have_no_violations() {
    assert_eq!(violations(Fixture::renewal), [] as [&str; 0]);
    assert_eq!(violations(refused), [] as [&str; 0]);
}

#[test]
fn the_card_of_an_approved_payment_is_active_and_announced_once() {
    reports_renewal("became active without", |fixture| fixture.books.page_cards[0].accepted_us = None);
    reports_renewal("is failed at the end", |fixture| fixture.books.page_cards[0].status = "failed".to_owned());
    reports_renewal("is listed without", |fixture| drop(fixture.state.objects.remove(&id("pm", 9))));
    reports_renewal("0 events announce", |fixture| {
        fixture.books.events.retain(|event| event["type"] != "payment_method.created");
    });
    reports_renewal("2 events announce", |fixture| {
        let event = fixture.events("payment_method.created")[0].clone();
        fixture.books.events.push(event);
    });
    reports_renewal("before its approval", |fixture| {
        fixture.books.page_cards[0].accepted_us = Some(i64::MAX);
        fixture.request(get("/v1/payment_methods?customerId={customer.0}"), 200, list());
    });
}

fn list() -> Value {
    json!({"object": "list", "data": [shown(9, true)], "hasMore": false})
}

#[test]
fn a_card_without_an_approval_in_full_is_not_saved() {
    reports_refused("became active without", |fixture| fixture.books.page_cards[0].accepted_us = Some(0));
    reports_refused("is active at the end", |fixture| fixture.books.page_cards[0].status = "active".to_owned());
    reports_refused("is listed without", |fixture| {
        fixture.state.objects.insert(id("pm", 4), shown(4, true));
    });
    reports_refused("1 events announce", |fixture| {
        let mut event = fixture.books.events[0].clone();
        event["type"] = "payment_method.created".into();
        event["data"]["object"] = shown(4, true);
        fixture.books.events.push(event);
    });
    reports_refused("was charged again", |fixture| fixture.books.page_cards[0].charged_again = 1);
    reports_refused("before its approval", |fixture| {
        fixture.request(get("/v1/payment_methods/{card.0}"), 200, shown(4, false));
    });
    // Approved in part.
    reports_renewal("became active without", |fixture| fixture.shown("pay", 9)["amount"] = 350.into());
    reports_renewal("is not shown", |fixture| fixture.books.page_cards[0].payment = id("pay", 99));
}

#[test]
fn a_card_is_saved_once_for_a_payment() {
    reports_renewal("saved a card 2 times", |fixture| fixture.books.page_cards[0].stored = 2);
    reports_renewal("2 cards were saved with one payment", |fixture| {
        let again = PageCard { card: id("pm", 4), ..fixture.books.page_cards[0].clone() };
        fixture.books.page_cards.push(again);
    });
    reports("1 cards more than requested", |fixture| fixture.books.surplus_cards = 1);
    let submit = |fixture: &mut Fixture| {
        let content = Content::Form("token=tok_ok&renewals=1".to_owned());
        fixture.request(Request { content, ..get("{invoice.2.url}") }, 303, Value::Null);
        let location = format!("x?payment={}", id("pay", 9));
        let last = fixture.responses.len() - 1;
        fixture.response(last).headers.insert("location".to_owned(), location);
    };
    reports_renewal("without saving its card", |fixture| {
        submit(fixture);
        fixture.books.page_cards.clear();
    });
    let saved = violations(|fixture| {
        fixture.renewal();
        submit(fixture);
    });
    assert_eq!(saved, [] as [&str; 0]);
}

#[test]
fn the_card_that_paid_is_the_default_until_another_is_chosen() {
    let text = "is not the default card";
    let other = |fixture: &mut Fixture| {
        fixture.renewal();
        fixture.shown("pm", 9)["isDefault"] = false.into();
        fixture.state.objects.insert(id("pm", 4), shown(4, true));
    };
    let is_reported = |change: &dyn Fn(&mut Fixture)| {
        let violations = violations(|fixture| {
            other(fixture);
            change(fixture);
        });
        violations.iter().any(|violation| violation.contains(text))
    };
    let choose = |fixture: &mut Fixture, status: u16| {
        fixture.request(post("/v1/payment_methods/{card.0}/default", json!({})), status, shown(4, true));
    };
    assert!(is_reported(&|_| {}));
    assert!(!is_reported(&|fixture| choose(fixture, 200)));
    assert!(is_reported(&|fixture| choose(fixture, 409)));
    // While the payment is under way, and before.
    assert!(!is_reported(&|fixture| {
        choose(fixture, 200);
        fixture.books.page_cards[0].accepted_us = Some(i64::MAX);
    }));
    assert!(is_reported(&|fixture| {
        choose(fixture, 200);
        fixture.books.page_cards[0].begun_us = i64::MAX;
    }));
    assert!(!is_reported(&|fixture| {
        choose(fixture, 200);
        *fixture.responses.last_mut().expect("a response") = Some(Response::Lost);
    }));
    reports_renewal("does not name the card", |fixture| {
        fixture.shown("sub", 1)["paymentMethodId"] = id("pm", 4).into()
    });
}
