//! States move only as documented, and a later response never shows an earlier state.

use std::collections::BTreeMap;

use serde_json::Value;

use super::calendar::parse_time;
use super::{Evidence, Violations};
use crate::client::ReceivedResponse;

/// The next states of each state: the lists of statuses in docs/api.md and docs/billing.md.
const NEXT: &[(&str, &str, &[&str])] = &[
    (
        "payment",
        "processing",
        &["requires_action", "authorized", "partially_authorized", "pending_settlement", "declined", "failed"],
    ),
    ("payment", "requires_action", &["authorized", "pending_settlement", "declined", "failed"]),
    ("payment", "authorized", &["pending_settlement", "cancelled", "expired"]),
    (
        "payment",
        "partially_authorized",
        &["pending_settlement", "settled", "partially_refunded", "refunded", "cancelled", "expired"],
    ),
    ("payment", "pending_settlement", &["settled", "partially_refunded", "refunded", "cancelled"]),
    ("payment", "settled", &["partially_refunded", "refunded"]),
    ("payment", "partially_refunded", &["refunded"]),
    ("invoice", "draft", &["open", "voided"]),
    ("invoice", "open", &["scheduled", "paid", "voided"]),
    ("invoice", "scheduled", &["open", "paid", "voided"]),
    ("invoice", "paid", &["voided"]),
    ("subscription", "scheduled", &["active", "cancelled"]),
    ("subscription", "active", &["past_due", "cancelled"]),
    ("subscription", "past_due", &["active", "cancelled"]),
    ("recurring_invoice", "active", &["paused", "parked", "completed", "cancelled"]),
    ("recurring_invoice", "paused", &["active", "completed", "cancelled"]),
    ("recurring_invoice", "parked", &["active", "completed", "cancelled"]),
    ("recurring_invoice", "completed", &["cancelled"]),
    ("payment_link", "open", &["paid", "cancelled", "expired"]),
    ("payment_method", "processing", &["active"]),
    ("refund", "pending", &["succeeded", "failed"]),
    ("dispute", "needs_response", &["won", "lost"]),
    ("dispute", "lost", &["won"]),
];

/// What never decreases.
const GROWING: [&str; 4] = ["amountCaptured", "amountRefunded", "amountPaid", "occurrenceCount"];

/// What never changes once it is shown.
const CONSTANT: [&str; 17] = [
    "createdAt",
    "customerId",
    "planId",
    "currency",
    "amountRequested",
    "url",
    "expiresAt",
    "startAt",
    "timezone",
    "number",
    "issuedAt",
    "dueAt",
    "paidAt",
    "paymentId",
    "voidedAt",
    "cancelledAt",
    "declineCode",
];

/// Whether an object of this type can get from one state to another.
pub(super) fn can_become(object: &str, from: &str, to: &str) -> bool {
    let (mut reached, mut next) = (vec![from], 0);
    while let Some(state) = reached.get(next).copied() {
        next += 1;
        let rows = NEXT.iter().filter(|(kind, begin, _)| (*kind, *begin) == (object, state));
        for state in rows.flat_map(|(.., ends)| *ends) {
            if !reached.contains(state) {
                reached.push(state);
            }
        }
    }
    reached.contains(&to)
}

/// Why `later` cannot be a later state of `earlier`.
pub(super) fn contradiction(earlier: &Value, later: &Value) -> Option<String> {
    let [from, to] = [earlier, later].map(|object| object["status"].as_str().unwrap_or_default());
    if !can_become(earlier["object"].as_str().unwrap_or_default(), from, to) {
        return Some(format!("{} was {from} and is {to} later", earlier["id"]));
    }
    if earlier["settled"] == true && later["settled"] == false {
        return Some(format!("{} is no longer settled", earlier["id"]));
    }
    let changes = |field: &&&str| earlier.get(**field).is_some_and(|value| *value != later[**field]);
    if let Some(field) = CONSTANT.iter().find(changes) {
        return Some(format!("{field} of {} is no longer {}", earlier["id"], earlier[*field]));
    }
    let shrinks = |field: &&&str| earlier[**field].as_i64() > later[**field].as_i64().or(Some(0));
    GROWING.iter().find(shrinks).map(|field| format!("{} of {} is less than before", field, earlier["id"]))
}

/// The test clock never goes back, and has reached the target of an advance that is not pending.
fn clock(evidence: &Evidence<'_>, violations: &mut Violations) {
    let time = |value: &Value| value.as_str().and_then(parse_time);
    let shown: Vec<(&ReceivedResponse, i64)> = evidence
        .responses()
        .filter(|(_, response)| response.json["object"] == "test_clock")
        .filter_map(|(_, response)| Some((response, time(&response.json["now"])?)))
        .collect();
    for (earlier, before) in &shown {
        for (later, after) in shown.iter().filter(|(later, _)| later.sent_us > earlier.received_us) {
            violations.check(before <= after, || format!("the test clock went back: {earlier:?}, {later:?}"));
        }
        // Requests have no milliseconds.
        let target = earlier.sent.1["to"].as_str().map(|to| to.replace('Z', ".000Z")).and_then(|to| parse_time(&to));
        let is_reached = earlier.json["pending"] == true || target.is_none_or(|to| to <= *before);
        violations.check(is_reached, || format!("the advance has not reached its target: {earlier:?}"));
        violations.check(time(&evidence.state.now.clone().into()) >= Some(*before), || {
            format!("the test clock went back to {} after {earlier:?}", evidence.state.now)
        });
    }
}

/// An object and when it was shown: sent and received.
type Seen<'a> = (u64, u64, &'a Value);

/// Compares each response with those to later requests, and with the end.
pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    clock(evidence, violations);
    let mut seen: BTreeMap<&str, Vec<Seen<'_>>> = BTreeMap::new();
    for (_, response) in evidence.responses().filter(|(_, response)| response.succeeded() && !response.is_replay()) {
        let listed = response.json["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        for object in std::iter::once(&response.json).chain(listed) {
            if let (Some(id), true) = (object["id"].as_str(), object["status"].is_string()) {
                seen.entry(id).or_default().push((response.sent_us, response.received_us, object));
            }
        }
    }
    for (id, objects) in &mut seen {
        if let Some(object) = evidence.state.objects.get(*id) {
            objects.push((u64::MAX, u64::MAX, object));
        }
        for (_, received, earlier) in objects.iter() {
            for (.., later) in objects.iter().filter(|(sent, ..)| received < sent) {
                if let Some(contradiction) = contradiction(earlier, later) {
                    violations.0.push(contradiction);
                }
            }
        }
    }
}
