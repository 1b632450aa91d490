//! Each invariant detects the violations that it exists for: a valid run passes, and tampered copies of it fail.

mod release;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::check;
use crate::chaos::{
    endpoints::Delivery,
    evidence::{ApiState, Evidence},
    journal::Entry,
    leaks,
    ledger::LedgerLine,
};

const DAY: &str = "2026-11-21T10:00:00.000Z";

fn entry(request: &str, key: Option<&str>, body: Value, status: u16, response: &Value) -> Entry {
    let (key, status, response) = (key.map(str::to_owned), Some(status), response.to_string());
    Entry { sent: 100, ended: 200, shop: 0, request: request.to_owned(), key, body, status, response }
}

fn ledger_line(id: &str, kind: &str, parent: Option<&str>, amount: i64) -> LedgerLine {
    LedgerLine {
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

fn deliveries(events: &[(&str, &str)]) -> Vec<Delivery> {
    let mut received = Vec::new();
    for (number, (kind, object)) in events.iter().enumerate() {
        let body = json!({"type": kind, "data": {"object": {"id": object}}}).to_string();
        for endpoint in [0, 1] {
            received.push(Delivery {
                endpoint,
                event: format!("evt_{number}"),
                body: body.clone(),
                accepted: true,
                at: 150,
            });
        }
    }
    received
}

/// A payment with a key and a refund, one without a key, a voided authorization, an invoice, a link, a subscription,
/// and a payment that got a 500.
fn valid_run() -> Evidence {
    let keyed = with(
        payment("pay_1", "partially_refunded", 1000, 1000, 300),
        json!({"refunds": [{"status": "succeeded", "amount": 300}]}),
    );
    let voided_authorization = payment("pay_3", "cancelled", 1004, 0, 0);
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
        entry("POST /v1/payments", Some("k"), json!({"amount": 1000}), 201, &first),
        entry("POST /v1/payments", Some("k"), json!({"amount": 1000}), 201, &first),
        entry("POST /v1/payments", None, json!({"amount": 1002}), 201, &sale),
        entry("POST /v1/payments", None, json!({"amount": 1004}), 201, &payment("pay_3", "authorized", 1004, 0, 0)),
        entry("POST /v1/payments/pay_3/void", None, Value::Null, 200, &voided_authorization),
        entry("POST /v1/payments", None, json!({"amount": 1014}), 500, &json!({})),
        entry("POST /v1/invoices", None, json!({"amount": 1006}), 201, &json!({"id": "inv_1"})),
        entry("POST /v1/invoices", None, json!({"amount": 1012}), 201, &json!({"id": "inv_4"})),
        entry("POST /v1/invoices/inv_4/void", None, Value::Null, 200, &voided),
        entry("POST /v1/payment_links", None, json!({"amount": 1008}), 201, &json!({"id": "plink_1"})),
        entry("POST /v1/plans", None, json!({"amount": 1010}), 201, &json!({"id": "plan_1"})),
    ];
    let mut cancelled = ledger_line("c3", "authorize", None, 1004);
    cancelled.voided = true;
    let ledger = vec![
        ledger_line("c1", "sale", None, 1000),
        ledger_line("r1", "refund", Some("c1"), 300),
        ledger_line("c2", "sale", None, 1002),
        cancelled,
        ledger_line("v3", "void", Some("c3"), 1004),
        ledger_line("c4", "sale", None, 1006),
        ledger_line("c5", "sale", None, 1008),
        ledger_line("c6", "sale", None, 1010),
    ];
    let api_state = ApiState {
        payments: vec![keyed, sale, voided_authorization, of_invoice, of_link, of_cycle],
        invoices: vec![
            invoice("inv_1", 1006, "pay_4"),
            period("inv_2", "2026-11-21/2026-11-21", "pay_6"),
            unpaid,
            voided,
        ],
        attempts: BTreeMap::from([("inv_1".to_owned(), attempts)]),
        links: vec![link],
        subscriptions: vec![json!({"id": "sub_1", "nextBillingAt": "2026-11-23T00:00:00.000Z"})],
        ..ApiState::default()
    };
    let deliveries = deliveries(&[
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
    let unfinished = BTreeMap::from([("operations".to_owned(), 0)]);
    Evidence {
        ledger,
        requests,
        api_states: vec![api_state],
        deliveries,
        unfinished,
        searched: 1,
        ..Evidence::default()
    }
}

/// The invariants that a tampered copy violates.
fn violated_invariants(tamper: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = valid_run();
    tamper(&mut evidence);
    check(&evidence).into_iter().filter(|f| !f.violations.is_empty()).map(|f| f.invariant).collect()
}

#[track_caller]
fn assert_detected(invariant: &str, tamper: impl FnOnce(&mut Evidence)) {
    let violated_invariants = violated_invariants(tamper);
    assert!(violated_invariants.contains(&invariant), "{invariant} is not among {violated_invariants:?}");
}

fn duplicate_charge(evidence: &mut Evidence, charge: &str) {
    let line = evidence.ledger.iter().find(|line| line.id == charge).expect("the ledger has it").clone();
    evidence.ledger.push(LedgerLine { id: "again".to_owned(), reference: "op_other".to_owned(), ..line });
}

#[test]
fn a_valid_run_passes_and_checks_every_invariant() {
    let findings = check(&valid_run());
    for finding in &findings {
        assert!(finding.violations.is_empty(), "{finding:?}");
        assert!(finding.checked > 0, "{finding:?}");
    }
    assert_eq!(findings.len(), 21);
}

#[test]
fn duplicate_charges_are_detected() {
    assert_detected("one charge for each idempotency key", |e| duplicate_charge(e, "c1"));
    assert_detected("one charge for each payment without a key", |e| duplicate_charge(e, "c2"));
    assert_detected("one charge for each invoice", |e| duplicate_charge(e, "c4"));
    assert_detected("one charge for each link", |e| duplicate_charge(e, "c5"));
    assert_detected("one charge for each cycle", |e| {
        duplicate_charge(e, "c6");
        duplicate_charge(e, "c6");
    });
    assert_detected("one charge for each reference at a provider", |e| {
        e.ledger[2].reference = e.ledger[0].reference.clone()
    });
}

#[test]
fn unmatched_charges_and_payments_are_detected() {
    let invariant = "each charge belongs to one payment, and each payment has one charge";
    assert_detected(invariant, |e| duplicate_charge(e, "c2"));
    assert_detected(invariant, |e| drop(e.ledger.remove(2)));
    assert_detected(invariant, |e| e.ledger[2].amount += 1);
    assert_detected(invariant, |e| e.ledger[2].currency = "EUR".to_owned());
    assert_detected(invariant, |e| e.ledger[2].voided = true);
    assert_detected(invariant, |e| e.ledger[3].voided = false);
    assert_detected(invariant, |e| e.api_states[0].payments[1]["status"] = "failed".into());
    assert_detected("rejected payments charge nothing", |e| e.ledger.push(ledger_line("c9", "sale", None, 1014)));
}

#[test]
fn missing_and_unfinished_payments_are_detected() {
    let invariant = "every accepted payment exists and is final";
    assert_detected(invariant, |e| drop(e.api_states[0].payments.remove(1)));
    assert_detected(invariant, |e| e.api_states[0].payments[1]["status"] = "processing".into());
    assert_detected(invariant, |e| e.api_states[0].payments[1]["pendingOperation"] = "capture".into());
}

#[test]
fn missing_acknowledged_objects_are_detected() {
    let invariant = "every acknowledged object exists";
    assert_detected(invariant, |e| drop(e.api_states[0].links.remove(0)));
    assert_detected(invariant, |e| drop(e.api_states[0].invoices.remove(0)));
    assert_detected(invariant, |e| e.api_states[0].payments[2]["status"] = "pending_settlement".into());
}

#[test]
fn wrong_amounts_are_detected() {
    let invariant = "refunded + reserved ≤ captured ≤ authorized, as in the ledger";
    assert_detected(invariant, |e| e.api_states[0].payments[0]["amountRefunded"] = 1001.into());
    assert_detected(invariant, |e| e.api_states[0].payments[0]["amountRefunded"] = 200.into());
    assert_detected(invariant, |e| e.ledger[1].amount = 301);
    assert_detected(invariant, |e| e.ledger.push(ledger_line("r2", "refund", Some("c1"), 800)));
    assert_detected(invariant, |e| e.api_states[0].payments[1]["amountCaptured"] = 1.into());
}

#[test]
fn changed_responses_are_detected() {
    let invariant = "one key, one payment, one final response";
    assert_detected(invariant, |e| {
        e.requests[1].response = payment("pay_9", "pending_settlement", 1000, 1000, 0).to_string()
    });
    assert_detected(invariant, |e| e.requests[1].response.push(' '));
}

#[test]
fn operations_after_a_void_are_detected() {
    let invariant = "nothing is sent after an acknowledged void or cancellation";
    assert_detected(invariant, |e| e.ledger.push(LedgerLine { at: 900, ..ledger_line("c9", "sale", None, 1012) }));
    assert_detected(invariant, |e| {
        e.ledger.push(LedgerLine { at: 900, ..ledger_line("p9", "capture", Some("c3"), 1004) })
    });
}

#[test]
fn paid_objects_without_a_charge_are_detected() {
    let invariant = "paid if and only if there is exactly one approved charge";
    assert_detected(invariant, |e| e.ledger.retain(|line| line.id != "c4"));
    assert_detected(invariant, |e| drop(e.api_states[0].links[0].as_object_mut().map(|link| link.remove("paidAt"))));
    assert_detected(invariant, |e| e.api_states[0].payments[3]["status"] = "declined".into());
    assert_detected(invariant, |e| e.api_states[0].payments[1]["invoiceId"] = "inv_1".into());
}

#[test]
fn invalid_attempts_are_detected() {
    let invariant = "attempts are numbered from 1 and follow the backoff";
    let set = |e: &mut Evidence, index: usize, field: &str, value: Value| {
        e.api_states[0].attempts.get_mut("inv_1").expect("attempts")[index][field] = value;
    };
    assert_detected(invariant, |e| set(e, 1, "number", 3.into()));
    assert_detected(invariant, |e| set(e, 1, "attemptedAt", "2026-11-22T09:59:00.000Z".into()));
    assert_detected(invariant, |e| set(e, 0, "nextAttemptAt", "2026-11-21T12:00:00.000Z".into()));
    assert_detected(invariant, |e| {
        set(e, 0, "nextAttemptAt", "2026-11-24T10:00:00.000Z".into());
        set(e, 1, "attemptedAt", "2026-11-24T10:00:00.000Z".into());
    });
    assert_detected(invariant, |e| set(e, 0, "status", "succeeded".into()));
}

#[test]
fn gaps_and_repeated_periods_are_detected() {
    let invariant = "one invoice for each period, without gaps";
    assert_detected(invariant, |e| e.api_states[0].invoices[2]["billingPeriod"] = "2026-11-23/2026-11-23".into());
    assert_detected(invariant, |e| e.api_states[0].invoices[2]["billingPeriod"] = "2026-11-21/2026-11-21".into());
    assert_detected(invariant, |e| {
        e.api_states[0].subscriptions[0]["nextBillingAt"] = "2026-11-24T00:00:00.000Z".into()
    });
}

#[test]
fn missing_and_changed_events_are_detected() {
    let invariant = "each event reached every endpoint";
    assert_detected(invariant, |e| drop(e.deliveries.remove(0)));
    assert_detected(invariant, |e| e.deliveries[1].accepted = false);
    assert_detected(invariant, |e| {
        let twice = Delivery { event: "evt_other".to_owned(), ..e.deliveries[0].clone() };
        e.deliveries.push(twice);
    });
    assert_detected("repeated deliveries of an event are identical", |e| e.deliveries[1].body.push(' '));
}

#[test]
fn unfinished_work_leaks_and_exits_are_detected() {
    assert_detected("no work is left after the quiet period", |e| {
        *e.unfinished.entry("operations".to_owned()).or_default() = 1
    });
    let invariant = "no card number, security code or key in any log, row, Redis key or response";
    let words = leaks::words(&["svc_sk_test_secret".to_owned()]);
    assert_eq!(leaks::contained_words("number=4242424242424242&x", &words), ["4242424242424242"]);
    assert_eq!(leaks::contained_words("Bearer svc_sk_test_secret", &words), ["svc_sk_test_secret"]);
    assert!(leaks::contained_words("card 4242, amount 739", &words).is_empty());
    for text in ["cvv=739", "Some(cvv: \"739\")", "\\\"security_code\\\": \\\"739\\\"", "cvc: Some(\"739\")"] {
        assert!(leaks::contains_security_code(text), "{text}");
    }
    for other in ["cvv=7391", "cvv: \"***\", amount: 739", "a739", "cvv"] {
        assert!(!leaks::contains_security_code(other), "{other}");
    }
    assert_detected(invariant, |e| e.leaks.push("a log".to_owned()));
    assert_detected("no process exited by itself", |e| e.unexpected_exits.push("api-0".to_owned()));
}
