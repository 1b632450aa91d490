//! Nothing happens too early, even with wrong clocks. Times are checked with the run's clock, which no process uses,
//! and with the checker's own calendar.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    calendar,
    fields::{number, text},
    finding::Finding,
    requested::{self, TestClocks},
};
use crate::chaos::{
    evidence::Evidence,
    ledger::LedgerLine,
    time::{self, DAY},
};

/// The maximum difference between the clocks of the checker, the database and a process that follows it.
const TOLERANCE: i64 = 500;
const MINUTE: i64 = 60_000;

/// The ledger lines of charges, approved or not, by shop and amount.
type ChargeLines<'a> = BTreeMap<(usize, i64), Vec<&'a LedgerLine>>;

/// No invoice, cycle, retry or collection is charged before it is due, and nothing settles or expires early.
pub(super) fn nothing_early(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("nothing is charged before it is due, and nothing settles or expires early");
    let clocks = TestClocks::of(evidence);
    let mut lines = ChargeLines::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge()) {
        lines.entry((line.shop, line.amount)).or_default().push(line);
    }
    invoices(evidence, &clocks, &lines, &mut finding);
    subscriptions(evidence, &clocks, &lines, &mut finding);
    periods(evidence, &clocks, &mut finding);
    settlements_and_expiries(evidence, &clocks, &mut finding);
    finding
}

/// An invoice is not charged before the earliest scheduled time. A run is shorter than the interval between two
/// attempts, so each schedule request leads to at most one charge, or to two if the customer has another card to fall
/// back to.
fn invoices(evidence: &Evidence, clocks: &TestClocks, lines: &ChargeLines<'_>, finding: &mut Finding) {
    let customers_with_several_cards = requested::customers_with_several_cards(evidence);
    for (id, requested) in requested::invoices(evidence) {
        let due = requested.schedules.iter().map(|(at, ..)| *at).min();
        // Half the amount is a partial approval. Payments on pages with modifiers have other amounts.
        let charges = [requested.amount, requested.amount / 2].map(|amount| lines.get(&(requested.shop, amount)));
        let charges: Vec<&&LedgerLine> = charges.into_iter().flatten().flatten().collect();
        for line in &charges {
            let latest = clocks.latest(requested.shop, line.at);
            finding.check(due.is_some_and(|due| latest + TOLERANCE >= due), || {
                let due = due.map_or_else(|| "never".to_owned(), time::format_timestamp);
                format!("{id} is due {due} and was charged {} ({})", time::format_timestamp(line.at), line.id)
            });
        }
        if !clocks.was_moved(requested.shop) {
            let sent = charges.iter().filter(|line| !line.interrupted).count();
            let cards = 1 + usize::from(customers_with_several_cards.contains(requested.customer.as_str()));
            finding.check(sent <= requested.schedules.len() * cards, || {
                format!("{id} was scheduled {} times and sent {sent} times", requested.schedules.len())
            });
        }
    }
}

/// A subscription has no more charges than cycles that have begun.
fn subscriptions(evidence: &Evidence, clocks: &TestClocks, lines: &ChargeLines<'_>, finding: &mut Finding) {
    let mut plans: BTreeMap<String, Value> = BTreeMap::new();
    let mut requested: BTreeMap<&str, &Value> = BTreeMap::new();
    for entry in &evidence.requests {
        if entry.request == "POST /v1/plans" && entry.status.is_some_and(|status| status < 300) {
            let plan = entry.response_json();
            plans.insert(text(&plan, "id").to_owned(), plan);
        }
        if entry.request == "POST /v1/subscriptions" {
            requested.insert(text(&entry.body, "planId"), &entry.body["startAt"]);
        }
    }
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        for subscription in &api_state.subscriptions {
            let (id, plan) = (text(subscription, "id"), text(subscription, "planId"));
            let (Some(plan), Some(requested_start)) = (plans.get(plan), requested.get(plan)) else { continue };
            let start = text(subscription, "startAt");
            finding.check(requested_start.as_str().is_none_or(|requested_start| requested_start == start), || {
                format!("{id} was requested to start at {requested_start} and starts at {start}")
            });
            let Some(anchor) = time::days(start) else { continue };
            let mut charges: Vec<&&LedgerLine> =
                lines.get(&(shop, number(plan, "amount"))).into_iter().flatten().collect();
            charges.sort_by_key(|line| line.at);
            let mut approved = 0;
            for line in charges {
                approved += usize::from(line.approved);
                let day = (clocks.latest(shop, line.at) + TOLERANCE).div_euclid(DAY);
                let count = plan["intervalCount"].as_i64().unwrap_or(1);
                let begun = calendar::cycles_begun(anchor, text(plan, "interval"), count, day);
                finding.check(begun >= approved.max(1), || {
                    let at = time::format_timestamp(line.at);
                    format!("{id} starts at {start}: charge {approved} at {at}, when only {begun} cycles had begun")
                });
            }
        }
    }
}

/// No invoice is issued before its billing period begins, neither in a webhook nor in the API.
fn periods(evidence: &Evidence, clocks: &TestClocks, finding: &mut Finding) {
    let begins = |invoice: &Value| time::days(text(invoice, "billingPeriod").split_once('/')?.0).map(|day| day * DAY);
    let mut check_issued = |shop: usize, at: i64, invoice: &Value, event: &str| {
        let Some(begins) = begins(invoice) else { return };
        finding.check(clocks.latest(shop, at) + TOLERANCE >= begins, || {
            format!(
                "{} for {} was {event} at {}",
                text(invoice, "id"),
                invoice["billingPeriod"],
                time::format_timestamp(at)
            )
        });
    };
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        api_state.invoices.iter().for_each(|invoice| check_issued(shop, evidence.api_read_at, invoice, "listed"));
    }
    for received in &evidence.deliveries {
        let event: Value = serde_json::from_str(&received.body).unwrap_or(Value::Null);
        if text(&event, "type") == "invoice.issued" {
            check_issued(received.endpoint / 2, received.at, &event["data"]["object"], "announced");
        }
    }
}

/// Authorizations last a week, money at the mock settles after a minute, and links expire at `expiresAt`.
fn settlements_and_expiries(evidence: &Evidence, clocks: &TestClocks, finding: &mut Finding) {
    let mut charges: BTreeMap<(usize, i64), &LedgerLine> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge() && line.approved) {
        charges.entry((line.shop, line.amount)).or_insert(line);
    }
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        let latest = clocks.latest(shop, evidence.api_read_at) + TOLERANCE;
        for payment in &api_state.payments {
            let Some(LedgerLine { at, at_gateway, .. }) = charges.get(&(shop, number(payment, "amount"))) else {
                continue;
            };
            let (id, expired) = (text(payment, "id"), text(payment, "status") == "expired");
            finding.check(!expired || at + 7 * DAY <= latest, || format!("{id} expired within a week"));
            // At the gateway a business day may end at any time.
            let early = payment["settled"] == true && !at_gateway && at + MINUTE > latest;
            finding.check(!early, || format!("{id} settled within a minute"));
        }
        for link in api_state.links.iter().filter(|link| text(link, "status") == "expired") {
            let until = time::parse_timestamp(text(link, "expiresAt")).unwrap_or(i64::MAX);
            finding.check(until <= latest, || format!("{} expired before {}", text(link, "id"), link["expiresAt"]));
        }
    }
}
