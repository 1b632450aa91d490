//! Accepted payments reach a final state that agrees with the ledgers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    fields::{number, text},
    finding::Finding,
    requested,
};
use crate::chaos::{evidence::Evidence, ledger::LedgerLine};

/// The maximum difference between our clock and the database's, plus the duration of a commit.
const TOLERANCE_MS: i64 = 50;

/// Every payment returned to a client exists and is final.
pub(super) fn accepted_payments_are_final(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("every accepted payment exists and is final");
    let mut payments: BTreeMap<&str, &Value> = BTreeMap::new();
    for payment in evidence.api_states.iter().flat_map(|api_state| &api_state.payments) {
        payments.insert(text(payment, "id"), payment);
    }
    let mut returned: BTreeSet<String> = BTreeSet::new();
    for entry in evidence.requests.iter().filter(|e| e.request == "POST /v1/payments" && e.status == Some(201)) {
        returned.insert(text(&entry.response_json(), "id").to_owned());
    }
    for id in &returned {
        finding.check(payments.contains_key(id.as_str()), || format!("{id} was accepted and does not exist"));
    }
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        for payment in &api_state.payments {
            let status = text(payment, "status");
            let open = status == "requires_action" || (evidence.class_c.contains(&shop) && is_unknown(payment));
            finding.exceptions += u64::from(open);
            let is_final = status != "processing" && payment.get("pendingOperation").is_none();
            finding.check(open || is_final, || {
                format!("{} is still {status}, {}", text(payment, "id"), payment["pendingOperation"])
            });
        }
    }
    finding
}

/// Every other object returned to a client exists, and an acknowledged void is still a void.
pub(super) fn acknowledged_objects_exist(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("every acknowledged object exists");
    let mut existing: BTreeMap<&str, &Value> = BTreeMap::new();
    for api_state in &evidence.api_states {
        let lists = [
            &api_state.payments,
            &api_state.invoices,
            &api_state.links,
            &api_state.subscriptions,
            &api_state.recurring,
        ];
        let refunds = api_state.payments.iter().flat_map(refunds);
        existing.extend(lists.into_iter().flatten().chain(refunds).map(|object| (text(object, "id"), object)));
    }
    let creating_paths =
        ["/refund", "/v1/invoices", "/v1/payment_links", "/v1/subscriptions", "/v1/recurring_invoices"];
    for entry in evidence.requests.iter().filter(|entry| entry.status.is_some_and(|status| status < 300)) {
        let response = entry.response_json();
        let id = text(&response, "id");
        if entry.request.starts_with("POST ") && creating_paths.iter().any(|end| entry.request.ends_with(end)) {
            finding.check(existing.contains_key(id), || format!("{id} of {} does not exist", entry.request));
        }
        let is_void = entry.request.starts_with("POST /v1/payments/") && entry.request.ends_with("/void");
        if is_void && text(&response, "status") == "cancelled" {
            let status = existing.get(id).map_or("missing", |payment| text(payment, "status"));
            finding.check(status == "cancelled", || format!("{id} was acknowledged as cancelled and is {status}"));
        }
    }
    finding
}

fn is_unknown(payment: &Value) -> bool {
    text(payment, "status") == "processing"
        || payment.get("pendingOperation").is_some()
        || refunds(payment).any(|refund| text(refund, "status") == "pending")
}

fn refunds(payment: &Value) -> impl Iterator<Item = &Value> {
    payment["refunds"].as_array().into_iter().flatten()
}

/// The follow-up operations of each charge in the ledgers.
fn children(evidence: &Evidence) -> BTreeMap<(usize, &str), Vec<&LedgerLine>> {
    let mut children: BTreeMap<_, Vec<&LedgerLine>> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.approved) {
        if let Some(parent) = &line.parent {
            children.entry((line.shop, parent.as_str())).or_default().push(line);
        }
    }
    children
}

/// Payments with their charge, where the amount has exactly one charge in the ledger.
fn paired(evidence: &Evidence) -> Vec<(usize, &Value, &LedgerLine)> {
    let mut lines: BTreeMap<(usize, i64), Vec<&LedgerLine>> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge() && line.approved) {
        lines.entry((line.shop, line.amount)).or_default().push(line);
    }
    let mut pairs = Vec::new();
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        for payment in &api_state.payments {
            let has_money = !["processing", "requires_action", "declined", "failed"].contains(&text(payment, "status"));
            if let Some([line]) = lines.get(&(shop, number(payment, "amount"))).map(Vec::as_slice)
                && has_money
            {
                pairs.push((shop, payment, *line));
            }
        }
    }
    pairs
}

/// 0 ≤ refunded + reserved ≤ captured ≤ authorized, and each equals the ledger's sum.
pub(super) fn amounts_match_ledger(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("refunded + reserved ≤ captured ≤ authorized, as in the ledger");
    check_each_response(evidence, &mut finding);
    let children = children(evidence);
    for (shop, payment, charge) in paired(evidence) {
        let sum = |kind: &str| -> i64 {
            let of_charge = children.get(&(shop, charge.id.as_str())).into_iter().flatten();
            of_charge.filter(|line| line.kind == kind).map(|line| line.amount).sum()
        };
        let captured = if charge.kind == "sale" { charge.amount } else { sum("capture") };
        let refunded = sum("refund");
        let [amount, shown_captured, shown_refunded] =
            ["amount", "amountCaptured", "amountRefunded"].map(|f| number(payment, f));
        let reserved: i64 =
            refunds(payment).filter(|r| text(r, "status") == "pending").map(|r| number(r, "amount")).sum();
        let id = text(payment, "id");
        let bounded = 0 <= shown_refunded && shown_refunded + reserved <= shown_captured && shown_captured <= amount;
        finding.check(bounded && refunded <= captured && captured <= charge.amount, || {
            format!(
                "{id}: {shown_refunded} + {reserved} of {shown_captured} of {amount}; ledger {refunded} of {captured}"
            )
        });
        let unknown = payment.get("pendingOperation").is_some() || reserved > 0;
        finding.exceptions += u64::from(unknown);
        let same = shown_captured == captured && shown_refunded == refunded && amount == charge.amount;
        let within = (shown_refunded..=shown_refunded + reserved).contains(&refunded);
        let voided = text(payment, "status") == "cancelled" && refunded == shown_refunded;
        finding.check(if unknown { within } else { same || voided }, || {
            format!(
                "{id}: captured {shown_captured}, refunded {shown_refunded}; ledger ({}) {captured}, {refunded}",
                charge.id
            )
        });
        let is_voided = text(payment, "status") == "cancelled";
        finding.check(unknown || is_voided == charge.voided, || {
            format!("{id} is {}; voided in the ledger: {}", text(payment, "status"), charge.voided)
        });
    }
    finding
}

/// The same in every response of the API: the amount of a pending refund is reserved from the start.
fn check_each_response(evidence: &Evidence, finding: &mut Finding) {
    for entry in evidence.requests.iter().filter(|entry| entry.status.is_some_and(|status| status < 300)) {
        let response = entry.response_json();
        if text(&response, "object") != "payment" {
            continue;
        }
        let reserved: i64 = refunds(&response)
            .filter(|refund| text(refund, "status") == "pending")
            .map(|refund| number(refund, "amount"))
            .sum();
        let [captured, refunded] = ["amountCaptured", "amountRefunded"].map(|field| number(&response, field));
        finding.check(refunded + reserved <= captured, || {
            format!(
                "{}: {refunded} + {reserved} of {captured} in the response at {}",
                text(&response, "id"),
                entry.ended
            )
        });
    }
}

/// Repeating a key always returns one payment and one final response, byte by byte.
pub(super) fn one_response_per_key(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("one key, one payment, one final response");
    type KeyResponses<'a> = (BTreeSet<String>, BTreeSet<&'a str>);
    let mut responses: BTreeMap<(usize, &str), KeyResponses<'_>> = BTreeMap::new();
    for entry in evidence.requests.iter().filter(|e| e.request == "POST /v1/payments" && e.status == Some(201)) {
        let Some(key) = &entry.key else { continue };
        let response = entry.response_json();
        let (ids, finals) = responses.entry((entry.shop, key)).or_default();
        ids.insert(text(&response, "id").to_owned());
        if text(&response, "status") != "processing" {
            finals.insert(&entry.response);
        }
    }
    for ((shop, key), (ids, finals)) in responses {
        finding.check(ids.len() == 1 && finals.len() <= 1, || format!("shop {shop}, {key}: {ids:?}, {finals:?}"));
    }
    finding
}

/// After a void or cancellation is acknowledged with 200, nothing more is charged, captured or refunded.
pub(super) fn nothing_after_void(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("nothing is sent after an acknowledged void or cancellation");
    let mut acknowledged: BTreeMap<(usize, i64), i64> = BTreeMap::new();
    let mut voided: BTreeMap<String, i64> = BTreeMap::new();
    for entry in evidence.requests.iter().filter(|entry| entry.status == Some(200)) {
        let matches = |prefix: &str, verb: &str| entry.request.starts_with(prefix) && entry.request.ends_with(verb);
        let response = entry.response_json();
        if matches("POST /v1/invoices/", "/void") || matches("POST /v1/payment_links/", "/cancel") {
            for total in requested::totals(evidence, entry.shop, number(&response, "amount")) {
                acknowledged.entry((entry.shop, total)).or_insert(entry.ended);
            }
        } else if matches("POST /v1/payments/", "/void") && text(&response, "status") == "cancelled" {
            voided.entry(text(&response, "id").to_owned()).or_insert(entry.ended);
        }
    }
    for ((shop, amount), at) in acknowledged {
        let late = |line: &&LedgerLine| {
            line.shop == shop && line.amount == amount && line.is_charge() && line.at > at + TOLERANCE_MS
        };
        let late = evidence.ledger.iter().find(late);
        finding.check(late.is_none(), || format!("shop {shop}, amount {amount}: {:?} after {at}", late.map(|l| &l.id)));
    }
    let children = children(evidence);
    for (shop, payment, charge) in paired(evidence) {
        let Some(at) = voided.get(text(payment, "id")) else { continue };
        let mut after = children.get(&(shop, charge.id.as_str())).into_iter().flatten();
        let late = after.find(|line| line.kind != "void" && line.at > at + TOLERANCE_MS);
        finding.check(late.is_none(), || format!("{}: {:?} after {at}", text(payment, "id"), late.map(|l| &l.id)));
    }
    finding
}
