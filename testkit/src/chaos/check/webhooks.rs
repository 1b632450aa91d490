//! The webhooks that merchants receive.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    fields::{number, text},
    finding::Finding,
};
use crate::chaos::evidence::{ApiState, Evidence};

/// (event type, object id)
type ExpectedEvent = (String, String);

/// The events that an account's state requires, and how many of each.
fn expected_events(api_state: &ApiState) -> BTreeMap<ExpectedEvent, usize> {
    let mut expected_events = BTreeMap::new();
    let mut expect = |kind: &str, object: &Value, count: usize| {
        if count > 0 {
            expected_events.insert((kind.to_owned(), text(object, "id").to_owned()), count);
        }
    };
    for payment in &api_state.payments {
        let status = text(payment, "status");
        let refunds = payment["refunds"].as_array().into_iter().flatten();
        let count_refunds =
            |status: &'static str| refunds.clone().filter(move |refund| text(refund, "status") == status).count();
        let captured = number(payment, "amountCaptured") > 0 && status != "cancelled";
        expect("payment.captured", payment, usize::from(captured));
        expect("payment.declined", payment, usize::from(status == "declined"));
        expect("payment.cancelled", payment, usize::from(status == "cancelled"));
        expect("payment.settled", payment, usize::from(payment["settled"] == true));
        expect("payment.refunded", payment, count_refunds("succeeded"));
        expect("payment.refund_failed", payment, count_refunds("failed"));
    }
    for invoice in &api_state.invoices {
        expect("invoice.paid", invoice, usize::from(invoice["paidAt"].is_string()));
        expect("invoice.voided", invoice, usize::from(text(invoice, "status") == "voided"));
        expect("invoice.issued", invoice, usize::from(invoice["issuedAt"].is_string()));
    }
    for link in &api_state.links {
        expect("payment_link.paid", link, usize::from(link["paidAt"].is_string()));
        expect("payment_link.cancelled", link, usize::from(text(link, "status") == "cancelled"));
    }
    for subscription in &api_state.subscriptions {
        expect("subscription.created", subscription, 1);
    }
    expected_events
}

/// Both endpoints accepted each required event, and no event exists twice.
pub(super) fn events_reach_every_endpoint(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("each event reached every endpoint");
    let mut accepted: BTreeMap<(usize, ExpectedEvent), BTreeSet<&str>> = BTreeMap::new();
    let mut event_ids: BTreeMap<ExpectedEvent, BTreeSet<&str>> = BTreeMap::new();
    let mut endpoints_by_event: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for received in &evidence.deliveries {
        let event: Value = serde_json::from_str(&received.body).unwrap_or(Value::Null);
        let key = (text(&event, "type").to_owned(), text(&event["data"]["object"], "id").to_owned());
        event_ids.entry(key.clone()).or_default().insert(&received.event);
        if received.accepted {
            accepted.entry((received.endpoint, key)).or_default().insert(&received.event);
        }
        endpoints_by_event.entry(&received.event).or_default().insert(received.endpoint);
    }
    let pending: BTreeSet<&(usize, String, String)> =
        evidence.api_states.iter().flat_map(|api_state| &api_state.pending).collect();
    // Each pending delivery of an event that has not arrived anywhere excuses one missing event of its type.
    let mut undelivered: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for (endpoint, event, kind) in pending.iter().copied() {
        if !endpoints_by_event.contains_key(event.as_str()) {
            *undelivered.entry((*endpoint, kind.clone())).or_default() += 1;
        }
    }
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        for (key, count) in expected_events(api_state) {
            for endpoint in [shop * 2, shop * 2 + 1] {
                let delivered = accepted.get(&(endpoint, key.clone())).map_or(0, BTreeSet::len);
                let ids = event_ids.get(&key);
                let is_this_event = |event: &String| ids.is_some_and(|ids| ids.contains(event.as_str()));
                let pending_deliveries =
                    pending.iter().filter(|(to, event, _)| *to == endpoint && is_this_event(event)).count();
                let missing = count.saturating_sub(delivered + pending_deliveries);
                let excused = undelivered.entry((endpoint, key.0.clone())).or_default();
                let is_pending = delivered < count && missing <= *excused;
                *excused = excused.saturating_sub(if is_pending { missing } else { 0 });
                finding.exceptions += u64::from(is_pending);
                finding.check(delivered == count || is_pending, || {
                    format!("endpoint {endpoint} received {} for {} {delivered} times instead of {count}", key.0, key.1)
                });
            }
        }
    }
    for (event, endpoints) in endpoints_by_event {
        let shop = endpoints.first().map_or(0, |endpoint| endpoint / 2);
        let both_endpoints = BTreeSet::from([shop * 2, shop * 2 + 1]);
        let is_pending = pending.iter().any(|(_, waiting, _)| waiting == event);
        finding.check(endpoints == both_endpoints || is_pending, || format!("{event} reached only {endpoints:?}"));
    }
    finding
}

/// Each failed payment is announced to both endpoints.
pub(super) fn failed_payments_are_announced(evidence: &Evidence) -> Finding {
    const FAILED: &str = "payment.failed";
    let mut finding = Finding::new("each failed payment is announced");
    let mut announced: BTreeSet<(usize, String)> = BTreeSet::new();
    for received in evidence.deliveries.iter().filter(|received| received.accepted) {
        let event: Value = serde_json::from_str(&received.body).unwrap_or(Value::Null);
        if text(&event, "type") == FAILED {
            announced.insert((received.endpoint, text(&event["data"]["object"], "id").to_owned()));
        }
    }
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        for payment in api_state.payments.iter().filter(|payment| text(payment, "status") == "failed") {
            let id = text(payment, "id");
            for endpoint in [shop * 2, shop * 2 + 1] {
                let is_pending = api_state.pending.iter().any(|(to, _, kind)| *to == endpoint && kind == FAILED);
                let delivered = announced.contains(&(endpoint, id.to_owned()));
                finding.exceptions += u64::from(is_pending && !delivered);
                finding.check(delivered || is_pending, || {
                    format!("endpoint {endpoint} did not receive {FAILED} for {id}")
                });
            }
        }
    }
    finding
}

/// Repeated deliveries of an event have identical bodies.
pub(super) fn redeliveries_are_identical(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("repeated deliveries of an event are identical");
    let mut bodies: BTreeMap<&str, &str> = BTreeMap::new();
    for received in &evidence.deliveries {
        let first = *bodies.entry(&received.event).or_insert(&received.body);
        finding.check(first == received.body && !received.event.is_empty(), || {
            format!("{}: {first} and {}", received.event, received.body)
        });
    }
    finding
}
