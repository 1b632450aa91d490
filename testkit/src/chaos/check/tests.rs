//! Each invariant catches what it is there for: a run that is right, and hand-made violations of it.

mod release;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::check;
use crate::chaos::{
    evidence::{Booked, Evidence, Shown},
    journal::Entry,
    receiver::Received,
};

const DAY: &str = "2026-11-21T10:00:00.000Z";

fn asked(request: &str, key: Option<&str>, body: Value, status: u16, answer: &Value) -> Entry {
    let (key, status, answer) = (key.map(str::to_owned), Some(status), answer.to_string());
    Entry { sent: 100, ended: 200, shop: 0, request: request.to_owned(), key, body, status, answer }
}

fn booked(id: &str, kind: &str, parent: Option<&str>, amount: i64) -> Booked {
    Booked {
        shop: 0,
        at_gateway: false,
        id: id.to_owned(),
        kind: kind.to_owned(),
        parent: parent.map(str::to_owned),
        reference: format!("op_{id}"),
        approved: true,
        interrupted: false,
        voided: false,
        amount,
        fee: 0,
        currency: "USD".to_owned(),
        at: 150,
    }
}

fn payment(id: &str, status: &str, amount: i64, captured: i64, refunded: i64) -> Value {
    json!({"id": id, "status": status, "amount": amount, "currency": "USD", "amountCaptured": captured, "amountRefunded": refunded})
}

fn with(mut object: Value, fields: Value) -> Value {
    object.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    object
}

fn heard(events: &[(&str, &str)]) -> Vec<Received> {
    let mut received = Vec::new();
    for (number, (kind, object)) in events.iter().enumerate() {
        let body = json!({"type": kind, "data": {"object": {"id": object}}}).to_string();
        for endpoint in [0, 1] {
            received.push(Received {
                endpoint,
                event: format!("evt_{number}"),
                body: body.clone(),
                taken: true,
                at: 150,
            });
        }
    }
    received
}

/// A sale under a key with a refund, one without a key, a hold that was voided, an invoice, a link, a subscription, a refusal.
fn right() -> Evidence {
    let keyed = with(
        payment("pay_1", "partially_refunded", 1000, 1000, 300),
        json!({"refunds": [{"status": "succeeded", "amount": 300}]}),
    );
    let held = payment("pay_3", "cancelled", 1004, 0, 0);
    let of_invoice = with(payment("pay_4", "pending_settlement", 1006, 1006, 0), json!({"invoiceId": "inv_1"}));
    let of_link = with(payment("pay_5", "pending_settlement", 1008, 1008, 0), json!({"paymentLinkId": "plink_1"}));
    let of_cycle = with(payment("pay_6", "pending_settlement", 1010, 1010, 0), json!({"invoiceId": "inv_2"}));
    let sale = payment("pay_2", "pending_settlement", 1002, 1002, 0);
    let first = payment("pay_1", "pending_settlement", 1000, 1000, 0);
    let invoice = |id: &str, amount: i64, payment: &str| json!({"id": id, "amount": amount, "status": "paid", "paidAt": DAY, "issuedAt": DAY, "paymentId": payment});
    let period = |id: &str, period: &str, payment: &str| {
        with(invoice(id, 1010, payment), json!({"subscriptionId": "sub_1", "billingPeriod": period}))
    };
    let mut unpaid = period("inv_3", "2026-11-22/2026-11-22", "");
    unpaid.as_object_mut().expect("an object").retain(|field, _| !["paidAt", "paymentId"].contains(&field.as_str()));
    let voided = json!({"id": "inv_4", "amount": 1012, "status": "voided", "issuedAt": DAY});
    let link = json!({"id": "plink_1", "amount": 1008, "status": "paid", "paidAt": DAY, "paymentId": "pay_5"});
    let attempts = vec![
        json!({"number": 1, "status": "failed", "declineType": "soft", "attemptedAt": DAY, "nextAttemptAt": "2026-11-22T10:00:00.000Z"}),
        json!({"number": 2, "status": "succeeded", "attemptedAt": "2026-11-22T10:00:01.000Z"}),
    ];
    let requests = vec![
        asked("POST /v1/payments", Some("k"), json!({"amount": 1000}), 201, &first),
        asked("POST /v1/payments", Some("k"), json!({"amount": 1000}), 201, &first),
        asked("POST /v1/payments", None, json!({"amount": 1002}), 201, &sale),
        asked("POST /v1/payments", None, json!({"amount": 1004}), 201, &payment("pay_3", "authorized", 1004, 0, 0)),
        asked("POST /v1/payments/pay_3/void", None, Value::Null, 200, &held),
        asked("POST /v1/payments", None, json!({"amount": 1014}), 500, &json!({})),
        asked("POST /v1/invoices", None, json!({"amount": 1006}), 201, &json!({"id": "inv_1"})),
        asked("POST /v1/invoices", None, json!({"amount": 1012}), 201, &json!({"id": "inv_4"})),
        asked("POST /v1/invoices/inv_4/void", None, Value::Null, 200, &voided),
        asked("POST /v1/payment_links", None, json!({"amount": 1008}), 201, &json!({"id": "plink_1"})),
        asked("POST /v1/plans", None, json!({"amount": 1010}), 201, &json!({"id": "plan_1"})),
    ];
    let mut cancelled = booked("c3", "authorize", None, 1004);
    cancelled.voided = true;
    let ledger = vec![
        booked("c1", "sale", None, 1000),
        booked("r1", "refund", Some("c1"), 300),
        booked("c2", "sale", None, 1002),
        cancelled,
        booked("v3", "void", Some("c3"), 1004),
        booked("c4", "sale", None, 1006),
        booked("c5", "sale", None, 1008),
        booked("c6", "sale", None, 1010),
    ];
    let shown = Shown {
        payments: vec![keyed, sale, held, of_invoice, of_link, of_cycle],
        invoices: vec![
            invoice("inv_1", 1006, "pay_4"),
            period("inv_2", "2026-11-21/2026-11-21", "pay_6"),
            unpaid,
            voided,
        ],
        attempts: BTreeMap::from([("inv_1".to_owned(), attempts)]),
        links: vec![link],
        subscriptions: vec![json!({"id": "sub_1", "nextBillingAt": "2026-11-23T00:00:00.000Z"})],
        ..Shown::default()
    };
    let received = heard(&[
        ("payment.captured", "pay_1"),
        ("payment.captured", "pay_2"),
        ("payment.captured", "pay_4"),
        ("payment.captured", "pay_5"),
        ("payment.captured", "pay_6"),
        ("payment.refunded", "pay_1"),
        ("payment.cancelled", "pay_3"),
        ("invoice.paid", "inv_1"),
        ("invoice.paid", "inv_2"),
        ("invoice.issued", "inv_1"),
        ("invoice.issued", "inv_2"),
        ("invoice.issued", "inv_3"),
        ("invoice.issued", "inv_4"),
        ("invoice.voided", "inv_4"),
        ("payment_link.paid", "plink_1"),
        ("subscription.created", "sub_1"),
    ]);
    let left = BTreeMap::from([("operations".to_owned(), 0)]);
    Evidence { ledger, requests, shown: vec![shown], received, left, searched: 1, ..Evidence::default() }
}

/// The invariants that a tampered copy violates.
fn caught(tamper: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = right();
    tamper(&mut evidence);
    check(&evidence).into_iter().filter(|f| !f.violations.is_empty()).map(|f| f.invariant).collect()
}

#[track_caller]
fn catches(invariant: &str, tamper: impl FnOnce(&mut Evidence)) {
    let caught = caught(tamper);
    assert!(caught.contains(&invariant), "{invariant} is not among {caught:?}");
}

fn doubled(evidence: &mut Evidence, charge: &str) {
    let line = evidence.ledger.iter().find(|line| line.id == charge).expect("it is booked").clone();
    evidence.ledger.push(Booked { id: "again".to_owned(), reference: "op_other".to_owned(), ..line });
}

#[test]
fn a_run_that_is_right_violates_nothing_and_every_invariant_is_asked() {
    let findings = check(&right());
    for finding in &findings {
        assert!(finding.violations.is_empty(), "{finding:?}");
        assert!(finding.checked > 0, "{finding:?}");
    }
    assert_eq!(findings.len(), 21);
}

#[test]
fn second_charges_are_caught() {
    catches("one charge for each idempotency key", |e| doubled(e, "c1"));
    catches("one charge for each payment without a key", |e| doubled(e, "c2"));
    catches("one charge for each invoice", |e| doubled(e, "c4"));
    catches("one charge for each link", |e| doubled(e, "c5"));
    catches("one charge for each cycle", |e| {
        doubled(e, "c6");
        doubled(e, "c6");
    });
    catches("one charge for each reference at a provider", |e| e.ledger[2].reference = e.ledger[0].reference.clone());
}

#[test]
fn charges_without_payments_and_payments_without_charges_are_caught() {
    let invariant = "each charge is one payment, and each payment one charge";
    catches(invariant, |e| doubled(e, "c2"));
    catches(invariant, |e| drop(e.ledger.remove(2)));
    catches(invariant, |e| e.ledger[2].amount += 1);
    catches(invariant, |e| e.ledger[2].currency = "EUR".to_owned());
    catches(invariant, |e| e.ledger[2].voided = true);
    catches(invariant, |e| e.ledger[3].voided = false);
    catches(invariant, |e| e.shown[0].payments[1]["status"] = "failed".into());
    catches("a payment that was refused charged nothing", |e| e.ledger.push(booked("c9", "sale", None, 1014)));
}

#[test]
fn lost_and_unfinished_payments_are_caught() {
    let invariant = "every accepted payment is there and has ended";
    catches(invariant, |e| drop(e.shown[0].payments.remove(1)));
    catches(invariant, |e| e.shown[0].payments[1]["status"] = "processing".into());
    catches(invariant, |e| e.shown[0].payments[1]["pendingOperation"] = "capture".into());
}

#[test]
fn what_was_acknowledged_and_is_gone_is_caught() {
    let invariant = "whatever was acknowledged is there";
    catches(invariant, |e| drop(e.shown[0].links.remove(0)));
    catches(invariant, |e| drop(e.shown[0].invoices.remove(0)));
    catches(invariant, |e| e.shown[0].payments[2]["status"] = "pending_settlement".into());
}

#[test]
fn sums_that_differ_are_caught() {
    let invariant = "refunded + reserved ≤ captured ≤ authorized, as in the ledger";
    catches(invariant, |e| e.shown[0].payments[0]["amountRefunded"] = 1001.into());
    catches(invariant, |e| e.shown[0].payments[0]["amountRefunded"] = 200.into());
    catches(invariant, |e| e.ledger[1].amount = 301);
    catches(invariant, |e| e.ledger.push(booked("r2", "refund", Some("c1"), 800)));
    catches(invariant, |e| e.shown[0].payments[1]["amountCaptured"] = 1.into());
}

#[test]
fn answers_that_change_are_caught() {
    let invariant = "one key, one payment, one final answer";
    catches(invariant, |e| e.requests[1].answer = payment("pay_9", "pending_settlement", 1000, 1000, 0).to_string());
    catches(invariant, |e| e.requests[1].answer.push(' '));
}

#[test]
fn what_comes_after_the_end_is_caught() {
    let invariant = "nothing is sent after a void or cancel was acknowledged";
    catches(invariant, |e| e.ledger.push(Booked { at: 900, ..booked("c9", "sale", None, 1012) }));
    catches(invariant, |e| e.ledger.push(Booked { at: 900, ..booked("p9", "capture", Some("c3"), 1004) }));
}

#[test]
fn what_is_paid_without_a_charge_is_caught() {
    let invariant = "paid means one approved charge, and the other way round";
    catches(invariant, |e| e.ledger.retain(|line| line.id != "c4"));
    catches(invariant, |e| drop(e.shown[0].links[0].as_object_mut().map(|link| link.remove("paidAt"))));
    catches(invariant, |e| e.shown[0].payments[3]["status"] = "declined".into());
    catches(invariant, |e| e.shown[0].payments[1]["invoiceId"] = "inv_1".into());
}

#[test]
fn attempts_out_of_order_are_caught() {
    let invariant = "attempts 1 to n, with their backoff";
    let of = |e: &mut Evidence, place: usize, field: &str, value: Value| {
        e.shown[0].attempts.get_mut("inv_1").expect("attempts")[place][field] = value;
    };
    catches(invariant, |e| of(e, 1, "number", 3.into()));
    catches(invariant, |e| of(e, 1, "attemptedAt", "2026-11-22T09:59:00.000Z".into()));
    catches(invariant, |e| of(e, 0, "nextAttemptAt", "2026-11-21T12:00:00.000Z".into()));
    catches(invariant, |e| {
        of(e, 0, "nextAttemptAt", "2026-11-24T10:00:00.000Z".into());
        of(e, 1, "attemptedAt", "2026-11-24T10:00:00.000Z".into());
    });
    catches(invariant, |e| of(e, 0, "status", "succeeded".into()));
}

#[test]
fn gaps_and_repeated_periods_are_caught() {
    let invariant = "one invoice for each period, without gaps";
    catches(invariant, |e| e.shown[0].invoices[2]["billingPeriod"] = "2026-11-23/2026-11-23".into());
    catches(invariant, |e| e.shown[0].invoices[2]["billingPeriod"] = "2026-11-21/2026-11-21".into());
    catches(invariant, |e| e.shown[0].subscriptions[0]["nextBillingAt"] = "2026-11-24T00:00:00.000Z".into());
}

#[test]
fn events_that_are_missing_or_differ_are_caught() {
    let invariant = "each event reached each endpoint";
    catches(invariant, |e| drop(e.received.remove(0)));
    catches(invariant, |e| e.received[1].taken = false);
    catches(invariant, |e| {
        let twice = Received { event: "evt_other".to_owned(), ..e.received[0].clone() };
        e.received.push(twice);
    });
    catches("an event is the same bytes each time", |e| e.received[1].body.push(' '));
}

#[test]
fn what_is_left_leaks_or_dies_is_caught() {
    catches("nothing is left to be done after the quiet time", |e| {
        *e.left.entry("operations".to_owned()).or_default() = 1
    });
    let canary = "no card number, security code or key in any log, row, Redis key or answer";
    let words = super::canary::words(&["svc_sk_test_secret".to_owned()]);
    assert_eq!(super::canary::found("number=4242424242424242&x", &words), ["4242424242424242"]);
    assert_eq!(super::canary::found("Bearer svc_sk_test_secret", &words), ["svc_sk_test_secret"]);
    assert!(super::canary::found("card 4242, amount 739", &words).is_empty());
    for told in ["cvv=739", "Some(cvv: \"739\")", "\\\"security_code\\\": \\\"739\\\"", "cvc: Some(\"739\")"] {
        assert!(super::canary::tells_the_code(told), "{told}");
    }
    for other in ["cvv=7391", "cvv: \"***\", amount: 739", "a739", "cvv"] {
        assert!(!super::canary::tells_the_code(other), "{other}");
    }
    catches(canary, |e| e.leaks.push("a log".to_owned()));
    catches("no process ended by itself", |e| e.died.push("api-0".to_owned()));
}
