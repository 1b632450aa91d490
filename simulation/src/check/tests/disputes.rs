//! Disputes: at the provider, in our books, in events and in settlements.

use serde_json::Value;

use super::fixture::{Fixture, id, violations};
use super::reports;

/// Fails unless a change of a history with a lost dispute is reported.
fn reports_lost(text: &str, change: impl FnOnce(&mut Fixture)) {
    reports(text, |fixture| {
        fixture.dispute();
        change(fixture);
    });
}

/// The same for a dispute that was won later.
fn reports_won(text: &str, change: impl FnOnce(&mut Fixture)) {
    reports_lost(text, |fixture| {
        fixture.win();
        change(fixture);
    });
}

fn changed(change: impl FnOnce(&mut Fixture)) -> Vec<String> {
    violations(|fixture| {
        fixture.dispute();
        change(fixture);
    })
}

#[test]
fn disputes_have_no_violations() {
    assert_eq!(changed(|_| {}), [] as [&str; 0]);
    assert_eq!(changed(Fixture::win), [] as [&str; 0]);
    assert_eq!(violations(Fixture::dispute_of_link), [] as [&str; 0]);
}

#[test]
fn what_a_disputed_payment_has_paid_stays_paid() {
    let reports_link = |field: &str, value: Value| {
        reports("reopened what its payment paid", |fixture| {
            fixture.dispute_of_link();
            fixture.shown("plink", 2)[field] = value;
        });
    };
    reports_link("status", "open".into());
    reports_link("paymentId", id("pay", 1).into());
    // Of an invoice.
    reports_link("object", "invoice".into());
    reports("shows another refund", |fixture| fixture.shown("inv", 1)["amountRefunded"] = 1.into());
}

#[test]
fn each_dispute_is_known_once_as_the_provider_has_it() {
    reports_lost("a dispute is not known", |fixture| fixture.books.disputes[0].ours = None);
    reports_lost("the provider has 0 disputes", |fixture| fixture.books.disputes.clear());
    reports_lost("the provider has 2 disputes", |fixture| {
        let again = fixture.books.disputes[0].clone();
        fixture.books.disputes.push(again);
    });
    reports_lost("is of another payment", |fixture| fixture.books.disputes[0].payment = Some(id("pay", 1)));
    reports_lost("has another amount", |fixture| fixture.books.disputes[0].amount = 8_999);
    reports_lost("has another amount", |fixture| fixture.books.disputes[0].currency = "EUR".to_owned());
    reports_lost("has another status", |fixture| fixture.books.disputes[0].status = "needs_response".to_owned());
    reports_lost("its money withdrawn, or reverse", |fixture| fixture.books.disputes[0].withdrawn = 0);
    reports_won("its money withdrawn, or reverse", |fixture| fixture.books.disputes[0].withdrawn = 9_000);
}

#[test]
fn the_mock_decides_at_its_time() {
    let is_reported = |decided_ms: i64| {
        let violations = changed(|fixture| fixture.books.disputes[0].decided_ms = Some(decided_ms));
        violations.iter().any(|violation| violation.contains("has another status"))
    };
    // 2026-03-05, when the state was read.
    let now = 1_772_668_800_000;
    assert!(is_reported(now + 120_000) && !is_reported(now));
}

#[test]
fn events_announce_each_decision_once() {
    reports_lost("dispute.created instead of 1", |fixture| {
        fixture.books.events.retain(|event| event["type"] != "dispute.created");
    });
    let text = "other events of its decisions";
    reports_lost(text, |fixture| fixture.books.events.retain(|event| event["type"] != "dispute.closed"));
    reports_lost(text, |fixture| {
        let event = fixture.events("dispute.closed")[0].clone();
        fixture.books.events.push(event);
    });
    // Only an issuer that decides twice takes a decision back.
    reports_won(text, |fixture| fixture.books.disputes[0].is_decided_twice = false);
    reports_lost("the last event of a dispute", |fixture| fixture.shown("dp", 1)["reason"] = "other".into());
    reports_lost("contradicts its type", |fixture| {
        fixture.events("dispute.closed")[0]["data"]["object"]["status"] = "needs_response".into();
    });
}

/// What settled and was withdrawn.
fn total(fixture: &mut Fixture) -> &mut Value {
    &mut fixture.state.settlements[0]["data"][0]
}

#[test]
fn payments_and_settlements_show_what_was_withdrawn() {
    let text = "the disputes of a payment have withdrawn";
    reports_lost(text, |fixture| fixture.shown("pay", 10)["amountDisputed"] = 0.into());
    reports_won(text, |fixture| fixture.shown("pay", 10)["amountDisputed"] = 9_000.into());
    reports_lost(text, |fixture| fixture.shown("pay", 1)["amountDisputed"] = 1.into());
    reports_lost("amounts that contradict", |fixture| fixture.shown("pay", 10)["amountDisputed"] = 9_001.into());
    reports_lost("movements of disputed money", |fixture| total(fixture)["disputes"]["amount"] = 8_999.into());
    reports_won("movements of disputed money", |fixture| total(fixture)["disputes"]["count"] = 1.into());
    reports_lost("a net of settlements", |fixture| total(fixture)["net"] = 1.into());
    // Nobody knows yet what follows.
    let in_review = changed(|fixture| {
        fixture.books.in_review.insert(id("pay", 10));
        fixture.books.disputes[0].status = "won".to_owned();
    });
    assert!(!in_review.iter().any(|violation| violation.contains("another status")), "{in_review:?}");
}
