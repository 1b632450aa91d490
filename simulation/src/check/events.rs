//! docs/webhooks.md: each change has one event, and each event arrives, signed, as it was when it happened.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::calendar::parse_time;
use super::lifecycle::contradiction;
use super::{Evidence, Violations};

/// How far a process may be from the database's clock, in milliseconds: docs/operations.md.
const CLOCK_TOLERANCE: i64 = 2_000;

/// How often an object at the end has had an event of a type.
type Expected = Vec<(&'static str, usize)>;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    deliveries(evidence, violations);
    let mut of_object: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in &evidence.books.events {
        let object = &event["data"]["object"];
        of_object.entry(object["id"].as_str().unwrap_or_default()).or_default().push(event);
        violations.check(agrees(event), || format!("the event contradicts its type: {event}"));
    }
    for (id, object) in &evidence.state.objects {
        let events = of_object.remove(id.as_str()).unwrap_or_default();
        for (kind, count) in expected(evidence, object) {
            let written = events.iter().filter(|event| event["type"] == kind).count();
            violations.check(written == count, || format!("{written} events {kind} instead of {count}: {object}"));
        }
        order(evidence, object, events, violations);
    }
    for (id, events) in of_object {
        let is_listed = events.iter().any(|event| event["data"]["object"]["object"] == "webhook_endpoint");
        let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
        let is_detached = kinds == ["payment_method.created", "payment_method.detached"];
        violations.check(is_listed || is_detached, || format!("{id} has events and does not exist: {events:?}"));
    }
}

fn deliveries(evidence: &Evidence<'_>, violations: &mut Violations) {
    let written: BTreeMap<&str, &Value> =
        evidence.books.events.iter().map(|event| (event["id"].as_str().unwrap_or_default(), event)).collect();
    let mut bodies: BTreeMap<&str, &str> = BTreeMap::new();
    let mut acknowledged = BTreeSet::new();
    for delivery in &evidence.deliveries {
        let id = delivery.id.as_str();
        violations.check(delivery.is_signed_with(&evidence.secret), || format!("a wrong signature: {delivery:?}"));
        violations.check(*bodies.entry(id).or_insert(&delivery.body) == delivery.body, || {
            format!("two deliveries of {id} differ: {delivery:?}")
        });
        let sent: Value = serde_json::from_str(&delivery.body).unwrap_or_default();
        violations.check(written.get(id) == Some(&&sent), || format!("{id} differs from its event: {delivery:?}"));
        if delivery.acknowledged {
            acknowledged.insert(id);
        }
    }
    for id in written.keys().filter(|id| !acknowledged.contains(*id)) {
        violations.0.push(format!("the endpoint has not acknowledged {id}"));
    }
}

/// Whether the object in the event is in the state that the type of the event announces.
fn agrees(event: &Value) -> bool {
    let object = &event["data"]["object"];
    let status = object["status"].as_str().unwrap_or_default();
    let captured = object["amountCaptured"].as_i64().unwrap_or(0);
    let refund = |status: &str| {
        let mut refunds = object["refunds"].as_array().into_iter().flatten();
        refunds.any(|refund| refund["id"] == event["data"]["refundId"] && refund["status"] == status)
    };
    let (kind, change) = event["type"].as_str().and_then(|kind| kind.split_once('.')).unwrap_or_default();
    let is_of_type = object["object"] == kind && parse_time(event["timestamp"].as_str().unwrap_or_default()).is_some();
    let is_right = match (kind, change) {
        ("payment", "authorized") => ["authorized", "partially_authorized"].contains(&status) && captured == 0,
        ("payment", "captured") => ["pending_settlement", "partially_authorized"].contains(&status) && captured > 0,
        ("payment", "settled") => object["settled"] == true,
        ("payment", "refunded") => refund("succeeded"),
        ("payment", "refund_failed") => refund("failed"),
        ("payment", "capture_failed" | "void_failed") => object["failureCode"].is_string(),
        ("invoice", "issued") => ["open", "scheduled"].contains(&status),
        ("invoice", "payment_failed") => ["open", "scheduled"].contains(&status),
        ("invoice", "collection_exhausted") => status == "open" && object["collectionExhausted"] == true,
        ("subscription", "created") => ["scheduled", "active"].contains(&status),
        ("subscription", "renewed") => ["active", "past_due"].contains(&status),
        ("recurring_invoice", "resumed") => status == "active",
        ("customer" | "webhook_endpoint", _) => true,
        ("payment_method", "created" | "detached") => status == "active",
        ("dispute", "created") => true,
        ("dispute", "closed") => ["won", "lost"].contains(&status),
        (_, change) => status == change,
    };
    is_of_type && is_right
}

fn expected(evidence: &Evidence<'_>, object: &Value) -> Expected {
    let status = object["status"].as_str().unwrap_or_default();
    let is = |name: &str| usize::from(status == name);
    let has = |field: &str| usize::from(object.get(field).is_some());
    match object["object"].as_str() {
        Some("payment") => {
            let refunds = || object["refunds"].as_array().into_iter().flatten();
            let refunded = |status: &str| refunds().filter(|refund| refund["status"] == status).count();
            let was_captured = usize::from(object["amountCaptured"].as_i64() > Some(0));
            let was_approved = usize::from(!["processing", "declined", "failed"].contains(&status));
            let authorizes = object["capture"] == false;
            let mut expected = vec![
                ("payment.authorized", if authorizes { was_approved } else { 0 }),
                ("payment.settled", usize::from(object["settled"] == true)),
                ("payment.declined", is("declined")),
                ("payment.failed", is("failed")),
                ("payment.expired", is("expired")),
                ("payment.cancelled", is("cancelled")),
                ("payment.refunded", refunded("succeeded")),
                ("payment.refund_failed", refunded("failed")),
            ];
            if status != "cancelled" {
                expected.push(("payment.captured", was_captured));
            } else if !authorizes {
                expected.push(("payment.captured", 1));
            }
            expected
        }
        Some("invoice") => {
            let attempts = object["id"].as_str().and_then(|id| evidence.state.attempts.get(id)).into_iter().flatten();
            vec![
                ("invoice.issued", has("number")),
                ("invoice.paid", has("paidAt")),
                ("invoice.voided", is("voided")),
                ("invoice.payment_failed", attempts.filter(|attempt| evidence.has_failed(attempt)).count()),
            ]
        }
        Some("subscription") => {
            let billed =
                evidence.state.all("invoice").filter(|invoice| invoice["subscriptionId"] == object["id"]).count();
            vec![
                ("subscription.created", 1),
                ("subscription.renewed", billed.saturating_sub(1)),
                ("subscription.cancelled", is("cancelled")),
            ]
        }
        Some("recurring_invoice") => vec![("recurring_invoice.cancelled", is("cancelled"))],
        Some("payment_link") => vec![
            ("payment_link.paid", is("paid")),
            ("payment_link.expired", is("expired")),
            ("payment_link.cancelled", is("cancelled")),
        ],
        Some("customer") => vec![("customer.created", 1)],
        Some("payment_method") => vec![("payment_method.created", 1)],
        Some("dispute") => vec![("dispute.created", 1)],
        Some(_) | None => Vec::new(),
    }
}

/// The events of a payment or link form a path of its states that ends as it is now.
fn order(evidence: &Evidence<'_>, object: &Value, mut events: Vec<&Value>, violations: &mut Violations) {
    if !["payment", "payment_link"].contains(&object["object"].as_str().unwrap_or_default()) {
        return;
    }
    // Not by time: their clock may stand still. Their states cannot repeat.
    let mut path: Vec<&Value> = Vec::new();
    while !events.is_empty() {
        let shown = |event: &Value| event["data"]["object"].clone();
        let is_first = |one: &&Value| events.iter().all(|other| contradiction(&shown(one), &shown(other)).is_none());
        let first = events.iter().position(is_first).unwrap_or(0);
        path.push(events.remove(first));
    }
    for pair in path.windows(2) {
        let [one, other] = [pair[0], pair[1]].map(|event| &event["data"]["object"]);
        if let Some(contradiction) = contradiction(one, other) {
            violations.0.push(format!("events contradict each other, {contradiction}: {pair:?}"));
        }
        let [one, other] = [pair[0], pair[1]].map(|event| event["timestamp"].as_str().and_then(parse_time));
        // A process measures its distance from the database's clock, and a slow response makes that imprecise.
        let tolerance = if evidence.history.faults.is_empty() { 0 } else { CLOCK_TOLERANCE };
        let in_order = one <= other.map(|other| other + tolerance);
        violations.check(in_order || evidence.has_wrong_clock(|_| true), || {
            format!("an event is earlier than the one before it: {pair:?}")
        });
    }
    if let Some(last) = path.last() {
        let is_disputed = evidence.state.all("dispute").any(|dispute| dispute["paymentId"] == object["id"]);
        let without = |object: &Value| without_disputes(without_return(object), is_disputed);
        let is_same = without(&last["data"]["object"]) == without(object);
        violations
            .check(is_same || evidence.is_in_review(object), || format!("the last event {last} differs from {object}"));
    }
}

/// Without the message of a charge of a wrong amount, which says later that it was returned.
fn without_return(object: &Value) -> Value {
    let mut object = object.clone();
    if object["failureCode"] == "amount_mismatch"
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("failureMessage");
    }
    object
}

/// Without what a later dispute changes: it has events of its own.
fn without_disputes(mut object: Value, is_disputed: bool) -> Value {
    if is_disputed && let Some(fields) = object.as_object_mut() {
        fields.remove("amountDisputed");
        fields.remove("version");
    }
    object
}
