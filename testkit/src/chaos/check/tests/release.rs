//! What is judged by the checker's own clock, what must be done by the end, and both sides' books: a run that is right, and
//! hand-made violations of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{asked, booked, payment, with};
use crate::chaos::{
    check::{check, check_of_this_release},
    evidence::{Booked, Evidence, Shown},
    faults::{SentInVain, Window},
    journal::Entry,
    modifiers::Modifiers,
    receiver::Received,
    schedule::Fault,
    statement::Reported,
    time::{self, DAY},
};

const EARLY: &str = "nothing is charged before it is due, and nothing ends before its time";
const DUE: &str = "an invoice that is due and has a good card is paid";
const REFUSED: &str = "an attempt has failed only where an issuer has refused it";
const BACK: &str = "every accepted refund is made, and every reversal";
const BOOKS: &str = "our books and the providers' agree on each payment, both ways";
const CHARGED: &str = "each charge is one payment, and each payment one charge";
const TOTAL: &str = "a total that nobody has asked for is given back";

/// When the run ends.
fn now() -> i64 {
    time::parsed("2026-11-22T12:00:00.000Z").expect("an instant")
}

fn instant(ago: i64) -> String {
    time::printed(now() - ago)
}

/// At the moment of its answer, an hour before the end.
fn said(request: &str, body: Value, status: u16, answer: Value) -> Entry {
    let at = now() - DAY / 24;
    Entry { sent: at, ended: at + 100, ..asked(request, None, body, status, &answer) }
}

fn line(shop: usize, id: &str, kind: &str, parent: Option<&str>, amount: i64) -> Booked {
    Booked { shop, at_gateway: shop == 1, at: now() - 60_000, ..booked(id, kind, parent, amount) }
}

fn reported(id: &str, kind: &str, parent: &str, total: i64) -> Reported {
    let reference = if parent.is_empty() { String::new() } else { format!("op_{id}") };
    Reported {
        id: id.to_owned(),
        parent: parent.to_owned(),
        kind: kind.to_owned(),
        success: true,
        total,
        currency: "USD".to_owned(),
        child_reference: reference,
    }
}

fn heard(kind: &str, object: &Value, endpoints: [usize; 2]) -> impl Iterator<Item = Received> {
    let body = json!({"type": kind, "data": {"object": object}}).to_string();
    let event = format!("evt_{}", body.len());
    endpoints.into_iter().map(move |endpoint| Received {
        endpoint,
        event: event.clone(),
        body: body.clone(),
        taken: true,
        at: now() - 50_000,
    })
}

/// On the mock an invoice that was collected, one whose card is refused, one that is far ahead, a subscription of two days, a
/// failed payment and a part that was given back; at the gateway what is refunded, captured in part and voided, and a page's sum.
fn right() -> Evidence {
    let card =
        |id: &str, last4: &str| said("POST /v1/payment_methods", Value::Null, 201, json!({"id": id, "last4": last4}));
    let invoice = |id: &str, amount: i64| {
        said("POST /v1/invoices", json!({"amount": amount}), 201, json!({"id": id, "amount": amount}))
    };
    let schedule = |id: &str, card: &str, ago: i64| {
        let body = json!({"collectAt": instant(ago), "paymentMethodId": card});
        said(&format!("POST /v1/invoices/{id}/schedule"), body, 200, json!({"id": id}))
    };
    let paid = |amount: i64| said("POST /v1/payments", json!({"amount": amount}), 201, json!({}));
    let plan = json!({"id": "plan_1", "amount": 1004, "interval": "day", "intervalCount": 1});
    let at_gateway = |entry: Entry| Entry { shop: 1, ..entry };
    let requests = vec![
        card("pm_1", "4242"),
        card("pm_2", "9995"),
        invoice("inv_1", 1000),
        schedule("inv_1", "pm_1", 120_000),
        invoice("inv_2", 1002),
        schedule("inv_2", "pm_2", 120_000),
        invoice("inv_3", 1020),
        schedule("inv_3", "pm_1", -30 * DAY),
        said("POST /v1/plans", json!({"amount": 1004}), 201, plan),
        said("POST /v1/subscriptions", json!({"planId": "plan_1", "startAt": "2026-11-21"}), 201, json!({})),
        paid(1006),
        said("POST /v1/payment_links", json!({"amount": 1008}), 201, json!({"id": "plink_1"})),
        at_gateway(paid(1010)),
        at_gateway(paid(1012)),
        at_gateway(paid(1014)),
        at_gateway(said("POST /v1/payment_links", json!({"amount": 1016}), 201, json!({"id": "plink_2"}))),
        said("POST /v1/plans", Value::Null, 500, json!({})),
    ];
    let sum = Modifiers::OF_A_RUN.sums(1016)[0];
    let (mut declined, mut part, mut void) =
        (line(0, "c2", "sale", None, 1002), line(0, "c5", "sale", None, 504), line(1, "g3", "authorize", None, 1014));
    (declined.approved, part.voided, void.voided) = (false, true, true);
    let ledger = vec![
        line(0, "c1", "sale", None, 1000),
        declined,
        line(0, "c3", "sale", None, 1004),
        Booked { reference: "op_other".to_owned(), ..line(0, "c4", "sale", None, 1004) },
        part,
        line(1, "g1", "sale", None, 1010),
        line(1, "r1", "refund", Some("g1"), 300),
        line(1, "g2", "authorize", None, 1012),
        line(1, "p2", "capture", Some("g2"), 500),
        void,
        line(1, "v3", "void", Some("g3"), 1014),
        line(1, "g4", "sale", None, sum),
    ];
    let report = vec![
        reported("G1", "SALE", "", 1010),
        reported("R1", "REFUND", "G1", 300),
        reported("G2", "AUTHORIZE", "", 1012),
        reported("P2", "CAPTURE", "G2", 500),
        reported("G3", "AUTHORIZE", "", 1014),
        reported("V3", "VOID", "G3", 1014),
        reported("G4", "SALE", "", sum),
    ];
    Evidence {
        now: now(),
        shown_by: now(),
        requests,
        ledger,
        shown: vec![on_the_mock(), at_the_gateway(sum)],
        received: heard("payment.failed", &json!({"id": "pay_4"}), [0, 1])
            .chain(heard("invoice.issued", &cycle("inv_5", "2026-11-22"), [0, 1]))
            .collect(),
        modifiers: vec![None, Some(Modifiers::OF_A_RUN)],
        reported: BTreeMap::from([(1, report)]),
        windows: vec![Window { fault: Fault::PostgresRestart, from: now() - DAY / 24, to: now() - DAY / 24 + 10 }],
        asked_for_the_time: 1,
        sent_in_vain: vec![SentInVain { account: "shop".to_owned(), requests: 6, milliseconds: 5000 }],
        ..Evidence::default()
    }
}

fn cycle(id: &str, day: &str) -> Value {
    json!({"id": id, "amount": 1004, "status": "paid", "issuedAt": format!("{day}T00:00:00.000Z"), "subscriptionId": "sub_1",
           "billingPeriod": format!("{day}/{day}")})
}

fn on_the_mock() -> Shown {
    let part =
        with(payment("pay_5", "cancelled", 504, 0, 0), json!({"amountRequested": 1008, "paymentLinkId": "plink_1"}));
    let failed = json!({"number": 1, "status": "failed", "declineCode": "insufficient_funds", "amount": 1002});
    Shown {
        payments: vec![
            payment("pay_1", "pending_settlement", 1000, 1000, 0),
            payment("pay_2", "pending_settlement", 1004, 1004, 0),
            payment("pay_3", "pending_settlement", 1004, 1004, 0),
            payment("pay_4", "failed", 1006, 0, 0),
            part,
        ],
        invoices: vec![
            json!({"id": "inv_1", "amount": 1000, "status": "paid"}),
            json!({"id": "inv_2", "amount": 1002, "status": "scheduled"}),
            json!({"id": "inv_3", "amount": 1020, "status": "scheduled"}),
            cycle("inv_4", "2026-11-21"),
            cycle("inv_5", "2026-11-22"),
        ],
        attempts: BTreeMap::from([("inv_2".to_owned(), vec![failed])]),
        subscriptions: vec![
            json!({"id": "sub_1", "planId": "plan_1", "paymentMethodId": "pm_1", "startAt": "2026-11-21"}),
        ],
        ..Shown::default()
    }
}

fn at_the_gateway(sum: i64) -> Shown {
    let refunded = json!({"refunds": [{"id": "ref_1", "status": "succeeded", "amount": 300}]});
    Shown {
        payments: vec![
            with(payment("pay_6", "partially_refunded", 1010, 1010, 300), refunded),
            payment("pay_7", "pending_settlement", 1012, 500, 0),
            payment("pay_8", "cancelled", 1014, 0, 0),
            payment("pay_9", "pending_settlement", sum, sum, 0),
        ],
        ..Shown::default()
    }
}

#[track_caller]
fn catches(invariant: &str, tamper: impl FnOnce(&mut Evidence)) {
    let mut evidence = right();
    tamper(&mut evidence);
    let findings = check_of_this_release(&evidence);
    let caught: Vec<_> = findings.iter().filter(|f| !f.violations.is_empty()).map(|f| f.invariant).collect();
    assert!(caught.contains(&invariant), "{invariant} is not among {caught:?}");
}

fn of<'a>(evidence: &'a mut Evidence, id: &str) -> &'a mut Booked {
    evidence.ledger.iter_mut().find(|line| line.id == id).expect("it is booked")
}

#[test]
fn a_run_that_is_right_violates_nothing_and_every_invariant_is_asked() {
    let findings = check_of_this_release(&right());
    for finding in &findings {
        assert!(finding.violations.is_empty(), "{finding:?}");
        assert!(finding.checked > 0, "{finding:?}");
    }
    assert_eq!(findings.len(), 13);
}

#[test]
fn what_comes_before_its_time_is_caught() {
    // A collection before the instant that was asked for, in seconds and in months, and one that nobody has asked for.
    catches(EARLY, |e| e.requests[3].body["collectAt"] = instant(50_000).into());
    catches(EARLY, |e| e.ledger.push(line(0, "c9", "sale", None, 1020)));
    catches(EARLY, |e| drop(e.requests.remove(3)));
    catches(EARLY, |e| {
        let mut declined = line(0, "c9", "sale", None, 1020);
        declined.approved = false;
        e.ledger.push(declined);
    });
    // A retry on the same day.
    catches(EARLY, |e| e.ledger.push(Booked { approved: false, ..line(0, "c9", "sale", None, 1002) }));
    // A third cycle on the second day, and a cycle before the first.
    catches(EARLY, |e| e.ledger.push(line(0, "c9", "sale", None, 1004)));
    catches(EARLY, |e| of(e, "c3").at = time::parsed("2026-11-20T23:59:59.000Z").expect("an instant"));
    catches(EARLY, |e| e.shown[0].subscriptions[0]["startAt"] = "2026-11-20".into());
    // An invoice of tomorrow, there or announced.
    catches(EARLY, |e| e.shown[0].invoices.push(cycle("inv_6", "2026-11-23")));
    catches(EARLY, |e| e.received.extend(heard("invoice.issued", &cycle("inv_6", "2026-11-23"), [0, 1])));
    catches(EARLY, |e| e.shown[1].payments[1]["status"] = "expired".into());
    catches(EARLY, |e| {
        of(e, "c1").at = now() - 30_000;
        e.shown[0].payments[0]["settled"] = true.into();
    });
    let link = json!({"id": "plink_1", "status": "expired", "expiresAt": instant(-30 * DAY)});
    catches(EARLY, |e| e.shown[0].links.push(link));
}

#[test]
fn a_clock_that_was_moved_makes_due_what_it_has_passed() {
    let mut evidence = right();
    let to = json!({"to": time::printed(now() + 40 * DAY)});
    evidence.requests.push(said("POST /v1/test_clock/advance", to, 200, json!({})));
    evidence.ledger.push(line(0, "c9", "sale", None, 1020));
    let early = &check_of_this_release(&evidence)[0];
    assert!(early.violations.is_empty(), "{early:?}");
}

#[test]
fn what_was_accepted_and_is_not_done_is_caught() {
    catches(DUE, |e| e.shown[0].invoices[0]["status"] = "scheduled".into());
    catches(DUE, |e| e.shown[0].invoices[0]["status"] = "open".into());
    catches(DUE, |e| e.shown[0].invoices[3]["status"] = "scheduled".into());
    for code in ["processing_error", "provider_unavailable"] {
        let failed = json!({"number": 1, "status": "failed", "declineCode": code, "amount": 1000});
        catches(REFUSED, |e| drop(e.shown[0].attempts.insert("inv_1".to_owned(), vec![failed])));
    }
    catches(REFUSED, |e| e.ledger.retain(|line| line.id != "c2"));
    for status in ["pending", "failed"] {
        catches(BACK, |e| {
            e.shown[1].payments[0]["refunds"][0]["status"] = status.into();
            e.ledger.retain(|line| line.id != "r1");
        });
    }
    catches(BACK, |e| of(e, "c5").voided = false);
    catches("each failed payment is announced", |e| drop(e.received.remove(1)));
}

#[test]
fn a_refund_that_the_provider_could_not_make_may_fail() {
    let mut evidence = right();
    let failed = json!({"id": "ref_2", "status": "failed", "amount": 800});
    evidence.shown[1].payments[0]["refunds"].as_array_mut().expect("refunds").push(failed);
    let findings = check_of_this_release(&evidence);
    assert!(findings.iter().all(|finding| finding.violations.is_empty()), "{findings:?}");
}

#[test]
fn books_that_differ_are_caught_on_either_side() {
    // In the records and not with us, with us and not in the records, and each sum.
    catches(BOOKS, |e| drop(e.shown[1].payments.remove(1)));
    catches(BOOKS, |e| e.ledger.retain(|line| line.id != "g2"));
    catches(BOOKS, |e| of(e, "r1").amount = 301);
    catches(BOOKS, |e| e.ledger.retain(|line| line.id != "p2"));
    catches(BOOKS, |e| of(e, "g1").currency = "EUR".to_owned());
    catches(BOOKS, |e| e.shown[1].payments[2]["status"] = "authorized".into());
    // The same in the report, which is another witness.
    let report = |e: &mut Evidence, place: usize| e.reported.get_mut(&1).map(|lines| lines.remove(place));
    for place in 0..7 {
        catches(BOOKS, |e| drop(report(e, place)));
    }
    catches("each capture, void and refund at the gateway has a reference of its own", |e| {
        e.reported.get_mut(&1).expect("a report")[1].child_reference.clear();
    });
    catches("each capture, void and refund at the gateway has a reference of its own", |e| {
        e.reported.get_mut(&1).expect("a report")[1].child_reference = "op_P2".to_owned();
    });
}

#[test]
fn a_late_charge_of_a_failed_payment_waits_for_a_person_where_the_provider_takes_it_for_ever() {
    let late = |class_b: &[usize]| {
        let mut evidence = right();
        evidence.ledger.push(line(0, "c9", "sale", None, 1006));
        evidence.late.insert("op_c9".to_owned());
        evidence.class_b.extend(class_b);
        evidence
    };
    let violated = |evidence: &Evidence| {
        let all = check(evidence).into_iter().chain(check_of_this_release(evidence));
        all.filter(|finding| finding.invariant == CHARGED || finding.invariant == BOOKS)
            .map(|finding| finding.violations.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(violated(&late(&[0])), [0, 0]);
    assert_eq!(violated(&late(&[])), [1, 1]);
    let mut twice = late(&[0]);
    twice.ledger.push(Booked { reference: "op_another".to_owned(), ..line(0, "c10", "sale", None, 1006) });
    assert_eq!(violated(&twice), [1, 1]);
}

#[test]
fn a_total_that_nobody_has_asked_for_is_caught_unless_it_is_given_back() {
    catches(TOTAL, |e| e.ledger.push(line(1, "g9", "sale", None, 1061)));
    let mut evidence = right();
    evidence.ledger.push(Booked { voided: true, ..line(1, "g9", "sale", None, 1061) });
    assert!(check_of_this_release(&evidence).iter().all(|finding| finding.violations.is_empty()));
    // Then an attempt to collect has failed rightly, and the invoice cannot be paid.
    evidence.ledger[0] = Booked { voided: true, amount: 1051, fee: 51, ..evidence.ledger[0].clone() };
    evidence.shown[0].payments.remove(0);
    evidence.shown[0].invoices[0]["status"] = "scheduled".into();
    let failed = json!({"number": 1, "status": "failed", "declineCode": "amount_mismatch", "amount": 1000});
    evidence.shown[0].attempts.insert("inv_1".to_owned(), vec![failed]);
    assert!(check_of_this_release(&evidence).iter().all(|finding| finding.violations.is_empty()));
}

#[test]
fn what_the_processes_should_not_have_done_is_caught() {
    catches("a 500 is explained by a fault", |e| e.windows[0].fault = Fault::RedisFlush);
    catches("a 500 is explained by a fault", |e| e.windows[0].to -= 11_000);
    catches("Postgres has counted no deadlock", |e| e.deadlocks = 1);
    catches("no connection goes back to its pool inside a transaction", |e| e.begun_twice = 1);
    catches("a process whose clock is wrong says so and is not ready", |e| {
        e.ready_with_a_wrong_clock.push("worker-1".to_owned());
    });
    catches("a provider that turns everything away is asked seldom", |e| e.sent_in_vain[0].requests = 8);
}
