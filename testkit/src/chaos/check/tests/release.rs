//! The invariants of this release: times, completed work, reconciliation. A valid run passes, and tampered copies of it
//! fail.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{entry, ledger_line, payment, with};
use crate::chaos::{
    check::{check, check_current_release},
    endpoints::Delivery,
    evidence::{ApiState, Evidence},
    fault::Fault,
    fault_log::{RejectedRequests, Window},
    gateway_report::ReportLine,
    journal::Entry,
    ledger::LedgerLine,
    modifiers::Modifiers,
    time::{self, DAY},
};

const EARLY: &str = "nothing is charged before it is due, and nothing settles or expires early";
const DUE: &str = "a due invoice with a good card is paid";
const DECLINED: &str = "an attempt fails only if the issuer declined";
const REVERSED: &str = "every accepted refund and every required reversal is made";
const RECORDS: &str = "our records and the providers' agree on each payment, in both directions";
const MATCHED: &str = "each charge belongs to one payment, and each payment has one charge";
const TOTAL: &str = "a total that was never requested is reversed";

/// The end of the run.
fn now() -> i64 {
    time::parse_timestamp("2026-11-22T12:00:00.000Z").expect("an instant")
}

fn instant(ago: i64) -> String {
    time::format_timestamp(now() - ago)
}

/// An entry of the clients' log, one hour before the end.
fn logged_request(request: &str, body: Value, status: u16, response: Value) -> Entry {
    let at = now() - DAY / 24;
    Entry { sent: at, ended: at + 100, ..entry(request, None, body, status, &response) }
}

fn line(shop: usize, id: &str, kind: &str, parent: Option<&str>, amount: i64) -> LedgerLine {
    LedgerLine { shop, at_gateway: shop == 1, at: now() - 60_000, ..ledger_line(id, kind, parent, amount) }
}

fn report_line(id: &str, kind: &str, parent: &str, total: i64) -> ReportLine {
    let reference = if parent.is_empty() { String::new() } else { format!("op_{id}") };
    ReportLine {
        id: id.to_owned(),
        parent: parent.to_owned(),
        kind: kind.to_owned(),
        success: true,
        total,
        currency: "USD".to_owned(),
        child_reference: reference,
    }
}

fn deliveries(kind: &str, object: &Value, endpoints: [usize; 2]) -> impl Iterator<Item = Delivery> {
    let body = json!({"type": kind, "data": {"object": object}}).to_string();
    let event = format!("evt_{}", body.len());
    endpoints.into_iter().map(move |endpoint| Delivery {
        endpoint,
        event: event.clone(),
        body: body.clone(),
        accepted: true,
        at: now() - 50_000,
    })
}

/// At the mock: a collected invoice, one whose card is declined, one scheduled far ahead, a subscription for two days,
/// a failed payment, and a reversed partial approval. At the gateway: a refund, a partial capture, a void, and a page's
/// total.
fn valid_run() -> Evidence {
    let card = |id: &str, last4: &str| {
        logged_request("POST /v1/payment_methods", Value::Null, 201, json!({"id": id, "last4": last4}))
    };
    let invoice = |id: &str, amount: i64| {
        logged_request("POST /v1/invoices", json!({"amount": amount}), 201, json!({"id": id, "amount": amount}))
    };
    let schedule = |id: &str, card: &str, ago: i64| {
        let body = json!({"collectAt": instant(ago), "paymentMethodId": card});
        logged_request(&format!("POST /v1/invoices/{id}/schedule"), body, 200, json!({"id": id}))
    };
    let paid = |amount: i64| logged_request("POST /v1/payments", json!({"amount": amount}), 201, json!({}));
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
        logged_request("POST /v1/plans", json!({"amount": 1004}), 201, plan),
        logged_request("POST /v1/subscriptions", json!({"planId": "plan_1", "startAt": "2026-11-21"}), 201, json!({})),
        paid(1006),
        logged_request("POST /v1/payment_links", json!({"amount": 1008}), 201, json!({"id": "plink_1"})),
        at_gateway(paid(1010)),
        at_gateway(paid(1012)),
        at_gateway(paid(1014)),
        at_gateway(logged_request("POST /v1/payment_links", json!({"amount": 1016}), 201, json!({"id": "plink_2"}))),
        logged_request("POST /v1/plans", Value::Null, 500, json!({})),
    ];
    let total = Modifiers::FOR_A_RUN.totals(1016)[0];
    let (mut declined, mut partial, mut void) =
        (line(0, "c2", "sale", None, 1002), line(0, "c5", "sale", None, 504), line(1, "g3", "authorize", None, 1014));
    (declined.approved, partial.voided, void.voided) = (false, true, true);
    let ledger = vec![
        line(0, "c1", "sale", None, 1000),
        declined,
        line(0, "c3", "sale", None, 1004),
        LedgerLine { reference: "op_other".to_owned(), ..line(0, "c4", "sale", None, 1004) },
        partial,
        line(1, "g1", "sale", None, 1010),
        line(1, "r1", "refund", Some("g1"), 300),
        line(1, "g2", "authorize", None, 1012),
        line(1, "p2", "capture", Some("g2"), 500),
        void,
        line(1, "v3", "void", Some("g3"), 1014),
        line(1, "g4", "sale", None, total),
    ];
    let report = vec![
        report_line("G1", "SALE", "", 1010),
        report_line("R1", "REFUND", "G1", 300),
        report_line("G2", "AUTHORIZE", "", 1012),
        report_line("P2", "CAPTURE", "G2", 500),
        report_line("G3", "AUTHORIZE", "", 1014),
        report_line("V3", "VOID", "G3", 1014),
        report_line("G4", "SALE", "", total),
    ];
    Evidence {
        now: now(),
        api_read_at: now(),
        requests,
        ledger,
        api_states: vec![on_the_mock(), at_the_gateway(total)],
        deliveries: deliveries("payment.failed", &json!({"id": "pay_4"}), [0, 1])
            .chain(deliveries("invoice.issued", &cycle("inv_5", "2026-11-22"), [0, 1]))
            .collect(),
        modifiers: vec![None, Some(Modifiers::FOR_A_RUN)],
        gateway_reports: BTreeMap::from([(1, report)]),
        windows: vec![Window { fault: Fault::PostgresRestart, from: now() - DAY / 24, to: now() - DAY / 24 + 10 }],
        clock_checks: 1,
        rejected_requests: vec![RejectedRequests { account: "shop".to_owned(), requests: 6, milliseconds: 5000 }],
        ..Evidence::default()
    }
}

fn cycle(id: &str, day: &str) -> Value {
    json!({"id": id, "amount": 1004, "status": "paid", "issuedAt": format!("{day}T00:00:00.000Z"), "subscriptionId": "sub_1",
           "billingPeriod": format!("{day}/{day}")})
}

fn on_the_mock() -> ApiState {
    let partial =
        with(payment("pay_5", "cancelled", 504, 0, 0), json!({"amountRequested": 1008, "paymentLinkId": "plink_1"}));
    let failed = json!({"number": 1, "status": "failed", "declineCode": "insufficient_funds", "amount": 1002});
    ApiState {
        payments: vec![
            payment("pay_1", "pending_settlement", 1000, 1000, 0),
            payment("pay_2", "pending_settlement", 1004, 1004, 0),
            payment("pay_3", "pending_settlement", 1004, 1004, 0),
            payment("pay_4", "failed", 1006, 0, 0),
            partial,
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
        ..ApiState::default()
    }
}

fn at_the_gateway(total: i64) -> ApiState {
    let refunded = json!({"refunds": [{"id": "ref_1", "status": "succeeded", "amount": 300}]});
    ApiState {
        payments: vec![
            with(payment("pay_6", "partially_refunded", 1010, 1010, 300), refunded),
            payment("pay_7", "pending_settlement", 1012, 500, 0),
            payment("pay_8", "cancelled", 1014, 0, 0),
            payment("pay_9", "pending_settlement", total, total, 0),
        ],
        ..ApiState::default()
    }
}

#[track_caller]
fn assert_detected(invariant: &str, tamper: impl FnOnce(&mut Evidence)) {
    let mut evidence = valid_run();
    tamper(&mut evidence);
    let findings = check_current_release(&evidence);
    let violated_invariants: Vec<_> =
        findings.iter().filter(|f| !f.violations.is_empty()).map(|f| f.invariant).collect();
    assert!(violated_invariants.contains(&invariant), "{invariant} is not among {violated_invariants:?}");
}

fn line_with_id<'a>(evidence: &'a mut Evidence, id: &str) -> &'a mut LedgerLine {
    evidence.ledger.iter_mut().find(|line| line.id == id).expect("the ledger has it")
}

#[test]
fn a_valid_run_passes_and_checks_every_invariant() {
    let findings = check_current_release(&valid_run());
    for finding in &findings {
        assert!(finding.violations.is_empty(), "{finding:?}");
        assert!(finding.checked > 0, "{finding:?}");
    }
    assert_eq!(findings.len(), 13);
}

#[test]
fn early_charges_and_expiries_are_detected() {
    // Charges before the requested time, by seconds and by months, and one that was never scheduled.
    assert_detected(EARLY, |e| e.requests[3].body["collectAt"] = instant(50_000).into());
    assert_detected(EARLY, |e| e.ledger.push(line(0, "c9", "sale", None, 1020)));
    assert_detected(EARLY, |e| drop(e.requests.remove(3)));
    assert_detected(EARLY, |e| {
        let mut declined = line(0, "c9", "sale", None, 1020);
        declined.approved = false;
        e.ledger.push(declined);
    });
    // A retry on the same day.
    assert_detected(EARLY, |e| e.ledger.push(LedgerLine { approved: false, ..line(0, "c9", "sale", None, 1002) }));
    // A third cycle on the second day, and a cycle before the first.
    assert_detected(EARLY, |e| e.ledger.push(line(0, "c9", "sale", None, 1004)));
    assert_detected(EARLY, |e| {
        line_with_id(e, "c3").at = time::parse_timestamp("2026-11-20T23:59:59.000Z").expect("an instant")
    });
    assert_detected(EARLY, |e| e.api_states[0].subscriptions[0]["startAt"] = "2026-11-20".into());
    // Tomorrow's invoice, in the API or in a webhook.
    assert_detected(EARLY, |e| e.api_states[0].invoices.push(cycle("inv_6", "2026-11-23")));
    assert_detected(EARLY, |e| {
        e.deliveries.extend(deliveries("invoice.issued", &cycle("inv_6", "2026-11-23"), [0, 1]))
    });
    assert_detected(EARLY, |e| e.api_states[1].payments[1]["status"] = "expired".into());
    assert_detected(EARLY, |e| {
        line_with_id(e, "c1").at = now() - 30_000;
        e.api_states[0].payments[0]["settled"] = true.into();
    });
    let link = json!({"id": "plink_1", "status": "expired", "expiresAt": instant(-30 * DAY)});
    assert_detected(EARLY, |e| e.api_states[0].links.push(link));
}

#[test]
fn advancing_a_test_clock_makes_work_due() {
    let mut evidence = valid_run();
    let to = json!({"to": time::format_timestamp(now() + 40 * DAY)});
    evidence.requests.push(logged_request("POST /v1/test_clock/advance", to, 200, json!({})));
    evidence.ledger.push(line(0, "c9", "sale", None, 1020));
    let early = &check_current_release(&evidence)[0];
    assert!(early.violations.is_empty(), "{early:?}");
}

#[test]
fn unfinished_accepted_work_is_detected() {
    assert_detected(DUE, |e| e.api_states[0].invoices[0]["status"] = "scheduled".into());
    assert_detected(DUE, |e| e.api_states[0].invoices[0]["status"] = "open".into());
    assert_detected(DUE, |e| e.api_states[0].invoices[3]["status"] = "scheduled".into());
    for code in ["processing_error", "provider_unavailable"] {
        let next = "2026-11-22T10:00:00.000Z";
        let failed =
            json!({"number": 1, "status": "failed", "declineCode": code, "amount": 1000, "nextAttemptAt": next});
        assert_detected(DECLINED, |e| drop(e.api_states[0].attempts.insert("inv_1".to_owned(), vec![failed])));
    }
    assert_detected(DECLINED, |e| e.ledger.retain(|line| line.id != "c2"));
    for status in ["pending", "failed"] {
        assert_detected(REVERSED, |e| {
            e.api_states[1].payments[0]["refunds"][0]["status"] = status.into();
            e.ledger.retain(|line| line.id != "r1");
        });
    }
    assert_detected(REVERSED, |e| line_with_id(e, "c5").voided = false);
    assert_detected("each failed payment is announced", |e| drop(e.deliveries.remove(1)));
}

#[test]
fn impossible_refunds_may_fail() {
    let mut evidence = valid_run();
    let failed = json!({"id": "ref_2", "status": "failed", "amount": 800});
    evidence.api_states[1].payments[0]["refunds"].as_array_mut().expect("refunds").push(failed);
    let findings = check_current_release(&evidence);
    assert!(findings.iter().all(|finding| finding.violations.is_empty()), "{findings:?}");
}

#[test]
fn differing_records_are_detected_in_both_directions() {
    // Only in the ledger, only in the API, and different amounts.
    assert_detected(RECORDS, |e| drop(e.api_states[1].payments.remove(1)));
    assert_detected(RECORDS, |e| e.ledger.retain(|line| line.id != "g2"));
    assert_detected(RECORDS, |e| line_with_id(e, "r1").amount = 301);
    assert_detected(RECORDS, |e| e.ledger.retain(|line| line.id != "p2"));
    assert_detected(RECORDS, |e| line_with_id(e, "g1").currency = "EUR".to_owned());
    assert_detected(RECORDS, |e| e.api_states[1].payments[2]["status"] = "authorized".into());
    // The same with the report, an independent record.
    let report = |e: &mut Evidence, index: usize| e.gateway_reports.get_mut(&1).map(|lines| lines.remove(index));
    for index in 0..7 {
        assert_detected(RECORDS, |e| drop(report(e, index)));
    }
    assert_detected("each capture, void and refund at the gateway has a unique reference", |e| {
        e.gateway_reports.get_mut(&1).expect("a report")[1].child_reference.clear();
    });
    assert_detected("each capture, void and refund at the gateway has a unique reference", |e| {
        e.gateway_reports.get_mut(&1).expect("a report")[1].child_reference = "op_P2".to_owned();
    });
}

#[test]
fn late_charges_without_a_deadline_need_manual_review() {
    let late = |class_b: &[usize]| {
        let mut evidence = valid_run();
        evidence.ledger.push(line(0, "c9", "sale", None, 1006));
        evidence.late_references.insert("op_c9".to_owned());
        evidence.class_b.extend(class_b);
        evidence
    };
    let violation_counts = |evidence: &Evidence| {
        let all = check(evidence).into_iter().chain(check_current_release(evidence));
        all.filter(|finding| finding.invariant == MATCHED || finding.invariant == RECORDS)
            .map(|finding| finding.violations.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(violation_counts(&late(&[0])), [0, 0]);
    assert_eq!(violation_counts(&late(&[])), [1, 1]);
    let mut twice = late(&[0]);
    twice.ledger.push(LedgerLine { reference: "op_another".to_owned(), ..line(0, "c10", "sale", None, 1006) });
    assert_eq!(violation_counts(&twice), [1, 1]);
}

#[test]
fn unrequested_totals_are_detected_unless_reversed() {
    assert_detected(TOTAL, |e| e.ledger.push(line(1, "g9", "sale", None, 1061)));
    let mut evidence = valid_run();
    evidence.ledger.push(LedgerLine { voided: true, ..line(1, "g9", "sale", None, 1061) });
    assert!(check_current_release(&evidence).iter().all(|finding| finding.violations.is_empty()));
    // In this case the attempt fails correctly and the invoice cannot be paid.
    evidence.ledger[0] = LedgerLine { voided: true, amount: 1051, fee: 51, ..evidence.ledger[0].clone() };
    evidence.api_states[0].payments.remove(0);
    evidence.api_states[0].invoices[0]["status"] = "scheduled".into();
    let failed = json!({"number": 1, "status": "failed", "declineCode": "amount_mismatch", "amount": 1000});
    evidence.api_states[0].attempts.insert("inv_1".to_owned(), vec![failed]);
    assert!(check_current_release(&evidence).iter().all(|finding| finding.violations.is_empty()));
}

#[test]
fn process_misbehavior_is_detected() {
    assert_detected("every 500 is explained by a fault", |e| e.windows[0].fault = Fault::RedisFlush);
    assert_detected("every 500 is explained by a fault", |e| e.windows[0].to -= 11_000);
    assert_detected("Postgres reports no deadlock", |e| e.deadlocks = 1);
    assert_detected("no connection returns to its pool inside a transaction", |e| e.nested_transactions = 1);
    assert_detected("a process with a wrong clock reports it and is not ready", |e| {
        e.ready_with_wrong_clock.push("worker-1".to_owned());
    });
    assert_detected("a provider that rejects everything receives few requests", |e| {
        e.rejected_requests[0].requests = 8
    });
}
