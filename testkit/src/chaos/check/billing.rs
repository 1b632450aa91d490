//! Invoices, payment links and billing cycles.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    fields::{is_live, number, text},
    finding::Finding,
    requested,
};
use crate::chaos::{
    evidence::Evidence,
    ledger::LedgerLine,
    time::{self, DAY},
};

/// The retries, in days after the first attempt.
const BACKOFF: [i64; 4] = [1, 3, 5, 7];
const HOUR: i64 = DAY / 24;

/// A paid object has exactly one charge, and every charge is of a paid object.
pub(super) fn paid_if_charged(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("paid if and only if there is exactly one approved charge");
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        let payments: BTreeMap<&str, &Value> = api_state.payments.iter().map(|p| (text(p, "id"), p)).collect();
        for (object, field) in api_state
            .invoices
            .iter()
            .map(|o| (o, "invoiceId"))
            .chain(api_state.links.iter().map(|o| (o, "paymentLinkId")))
        {
            let id = text(object, "id");
            let payments_of_object: Vec<&&Value> = payments.values().filter(|p| text(p, field) == id).collect();
            let unknown = payments_of_object
                .iter()
                .filter(|p| ["processing", "requires_action"].contains(&text(p, "status")))
                .count();
            let live = payments_of_object.iter().filter(|p| is_live(p) && !is_refunded_partial_approval(p)).count();
            let is_paid = object["paidAt"].is_string();
            let linked_payment = payments.get(text(object, "paymentId"));
            finding.exceptions += unknown as u64;
            let is_consistent = if is_paid {
                live == 1
                    && linked_payment
                        .is_some_and(|p| is_live(p) && captures_amount(evidence, shop, p, number(object, "amount")))
            } else {
                live == 0
            };
            finding.check(is_consistent, || {
                format!("shop {shop}: {id} paidAt {}, {live} live payments", object["paidAt"])
            });
            if let Some(payment) = linked_payment {
                let charge_count = charges(evidence, shop, number(payment, "amount"));
                finding.check(charge_count > 0, || {
                    format!("shop {shop}: {id} is paid, but the ledger has no such charge")
                });
            }
        }
    }
    finding
}

/// A partial approval that had settled before it could be voided, and was refunded.
fn is_refunded_partial_approval(payment: &Value) -> bool {
    text(payment, "status") == "refunded" && number(payment, "amount") < number(payment, "amountRequested")
}

/// Whether the payment captured this amount plus the page's modifiers, which it lists separately.
fn captures_amount(evidence: &Evidence, shop: usize, payment: &Value, amount: i64) -> bool {
    let captured = number(payment, "amountCaptured");
    let modifiers = ["amountSurcharge", "amountTax", "amountTip"].map(|part| number(payment, part)).iter().sum::<i64>();
    if payment["amountBase"].is_null() {
        return captured == amount;
    }
    number(payment, "amountBase") == amount
        && captured == amount + modifiers
        && requested::totals(evidence, shop, amount).contains(&captured)
}

fn charges(evidence: &Evidence, shop: usize, amount: i64) -> usize {
    let matches = |line: &&LedgerLine| {
        line.shop == shop && line.is_charge() && line.approved && !line.voided && line.amount == amount
    };
    evidence.ledger.iter().filter(matches).count()
}

/// Attempts are numbered from 1 and made no earlier than scheduled, and soft declines are retried on the announced
/// days.
pub(super) fn attempts(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("attempts are numbered from 1 and follow the backoff");
    for (invoice, attempts) in evidence.api_states.iter().flat_map(|api_state| &api_state.attempts) {
        let (mut first, mut failures) = (0, 0);
        let mut announced = None;
        for (index, attempt) in attempts.iter().enumerate() {
            let at = time::parse_timestamp(text(attempt, "attemptedAt")).unwrap_or(0);
            let numbered = number(attempt, "number") == index as i64 + 1;
            finding.check(numbered, || format!("{invoice}: number {} at position {}", attempt["number"], index + 1));
            let is_due = announced.is_none_or(|announced| at >= announced);
            finding.check(is_due, || format!("{invoice}: attempt {} was made before it was due", index + 1));
            if announced.is_none() {
                // The first attempt of a series was not announced.
                (first, failures) = (at, 0);
            }
            announced = time::parse_timestamp(text(attempt, "nextAttemptAt"));
            let soft = text(attempt, "declineType") == "soft" && text(attempt, "status") == "failed";
            if let (Some(next), true) = (announced, soft) {
                let days = (next - first + DAY / 2) / DAY;
                let expected_days = BACKOFF.get(failures).copied();
                // A retry that is late still keeps its distance from the previous attempt.
                let distance = next - at;
                let late = expected_days.is_some_and(|expected_days| days > expected_days)
                    && (20 * HOUR..=21 * HOUR).contains(&distance);
                finding.check(expected_days == Some(days) || late, || {
                    format!("{invoice}: attempt {} is retried {days} days after the first", index + 1)
                });
                failures += 1;
            }
        }
        let ends = attempts.iter().filter(|attempt| text(attempt, "status") == "succeeded").count();
        finding.check(ends <= 1, || format!("{invoice}: {ends} attempts succeeded"));
    }
    finding
}

/// Each period due has exactly one invoice.
pub(super) fn periods(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("one invoice for each period, without gaps");
    for api_state in &evidence.api_states {
        let mut invoices: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for invoice in &api_state.invoices {
            for field in ["subscriptionId", "recurringInvoiceId"] {
                if let (Some(cycle), Some(period)) = (invoice[field].as_str(), invoice["billingPeriod"].as_str()) {
                    invoices.entry(cycle).or_default().push(period);
                }
            }
        }
        for cycle in api_state.subscriptions.iter().chain(&api_state.recurring) {
            let id = text(cycle, "id");
            let mut periods = invoices.remove(id).unwrap_or_default();
            periods.sort_unstable();
            check_gapless(&mut finding, id, &periods);
            let next = if cycle["nextInvoiceDate"].is_string() {
                text(cycle, "nextInvoiceDate")
            } else {
                text(cycle, "nextBillingAt")
            };
            if let (Some(last), Some(next)) = (periods.last().and_then(|period| ends(period)), next.get(..10)) {
                finding.check(time::days(next) == Some(last + 1), || {
                    format!("{id}: the next is {next}, after {periods:?}")
                });
            }
            if let Some(count) = cycle["occurrenceCount"].as_i64() {
                finding.check(count == periods.len() as i64, || {
                    format!("{id}: {count} created, but {} exist", periods.len())
                });
            }
        }
    }
    finding
}

fn begins(period: &str) -> Option<i64> {
    time::days(period.split_once('/')?.0)
}

fn ends(period: &str) -> Option<i64> {
    time::days(period.split_once('/')?.1)
}

fn check_gapless(finding: &mut Finding, id: &str, periods: &[&str]) {
    for pair in periods.windows(2) {
        let (end, begin) = (ends(pair[0]), begins(pair[1]));
        let next = end.is_some() && end.map(|day| day + 1) == begin;
        finding.check(next, || format!("{id}: {} is followed by {}", pair[0], pair[1]));
    }
}
