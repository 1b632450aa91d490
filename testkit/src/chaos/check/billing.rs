//! Invoices, links and cycles.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Finding, asked, is_live, number, text};
use crate::chaos::{
    evidence::{Booked, Evidence},
    time::{self, DAY},
};

/// Days after the first attempt, of the retries.
const BACKOFF: [i64; 4] = [1, 3, 5, 7];
const HOUR: i64 = DAY / 24;

/// What is paid was charged once, and what was charged is paid.
pub(super) fn paid_is_charged(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("paid means one approved charge, and the other way round");
    for (shop, shown) in evidence.shown.iter().enumerate() {
        let payments: BTreeMap<&str, &Value> = shown.payments.iter().map(|p| (text(p, "id"), p)).collect();
        for (object, field) in
            shown.invoices.iter().map(|o| (o, "invoiceId")).chain(shown.links.iter().map(|o| (o, "paymentLinkId")))
        {
            let id = text(object, "id");
            let of: Vec<&&Value> = payments.values().filter(|p| text(p, field) == id).collect();
            let unknown = of.iter().filter(|p| ["processing", "requires_action"].contains(&text(p, "status"))).count();
            let live = of.iter().filter(|p| is_live(p) && !is_part_given_back(p)).count();
            let is_paid = object["paidAt"].is_string();
            let named = payments.get(text(object, "paymentId"));
            finding.apart += unknown as u64;
            let right = if is_paid {
                live == 1 && named.is_some_and(|p| is_live(p) && pays(evidence, shop, p, number(object, "amount")))
            } else {
                live == 0
            };
            finding.holds(right, || format!("shop {shop}: {id} paidAt {}, {live} live payments", object["paidAt"]));
            if let Some(payment) = named {
                let booked = charges(evidence, shop, number(payment, "amount"));
                finding.holds(booked > 0, || format!("shop {shop}: {id} is paid, and the ledger has no such charge"));
            }
        }
    }
    finding
}

/// A part that had settled by the time that it was to be voided.
fn is_part_given_back(payment: &Value) -> bool {
    text(payment, "status") == "refunded" && number(payment, "amount") < number(payment, "amountRequested")
}

/// Whether a payment is one of this amount, and of what a page adds to it, which it shows in parts.
fn pays(evidence: &Evidence, shop: usize, payment: &Value, amount: i64) -> bool {
    let captured = number(payment, "amountCaptured");
    let added = ["amountSurcharge", "amountTax", "amountTip"].map(|part| number(payment, part)).iter().sum::<i64>();
    if payment["amountBase"].is_null() {
        return captured == amount;
    }
    number(payment, "amountBase") == amount
        && captured == amount + added
        && asked::sums(evidence, shop, amount).contains(&captured)
}

fn charges(evidence: &Evidence, shop: usize, amount: i64) -> usize {
    let of = |line: &&Booked| {
        line.shop == shop && line.is_charge() && line.approved && !line.voided && line.amount == amount
    };
    evidence.ledger.iter().filter(of).count()
}

/// Attempts are numbered from 1, each at its time or later, and a soft decline is tried again on the days that were promised.
pub(super) fn attempts(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("attempts 1 to n, with their backoff");
    for (invoice, attempts) in evidence.shown.iter().flat_map(|shown| &shown.attempts) {
        let (mut first, mut failures) = (0, 0);
        let mut promised = None;
        for (index, attempt) in attempts.iter().enumerate() {
            let at = time::parsed(text(attempt, "attemptedAt")).unwrap_or(0);
            let numbered = number(attempt, "number") == index as i64 + 1;
            finding.holds(numbered, || format!("{invoice}: number {} at place {}", attempt["number"], index + 1));
            let due = promised.is_none_or(|promised| at >= promised);
            finding.holds(due, || format!("{invoice}: attempt {} came before it was due", index + 1));
            if promised.is_none() {
                // The first of a series: nothing promised it.
                (first, failures) = (at, 0);
            }
            promised = time::parsed(text(attempt, "nextAttemptAt"));
            let soft = text(attempt, "declineType") == "soft" && text(attempt, "status") == "failed";
            if let (Some(next), true) = (promised, soft) {
                let days = (next - first + DAY / 2) / DAY;
                let wanted = BACKOFF.get(failures).copied();
                // What comes late keeps apart from the attempt before.
                let apart = next - at;
                let late = wanted.is_some_and(|wanted| days > wanted) && (20 * HOUR..=21 * HOUR).contains(&apart);
                finding.holds(wanted == Some(days) || late, || {
                    format!("{invoice}: attempt {} is tried again {days} days after the first", index + 1)
                });
                failures += 1;
            }
        }
        let ends = attempts.iter().filter(|attempt| text(attempt, "status") == "succeeded").count();
        finding.holds(ends <= 1, || format!("{invoice}: {ends} attempts succeeded"));
    }
    finding
}

/// Each period that was due has one invoice, and none is left out.
pub(super) fn periods(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("one invoice for each period, without gaps");
    for shown in &evidence.shown {
        let mut invoices: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for invoice in &shown.invoices {
            for field in ["subscriptionId", "recurringInvoiceId"] {
                if let (Some(of), Some(period)) = (invoice[field].as_str(), invoice["billingPeriod"].as_str()) {
                    invoices.entry(of).or_default().push(period);
                }
            }
        }
        for cycle in shown.subscriptions.iter().chain(&shown.recurring) {
            let id = text(cycle, "id");
            let mut periods = invoices.remove(id).unwrap_or_default();
            periods.sort_unstable();
            gapless(&mut finding, id, &periods);
            let next = if cycle["nextInvoiceDate"].is_string() {
                text(cycle, "nextInvoiceDate")
            } else {
                text(cycle, "nextBillingAt")
            };
            if let (Some(last), Some(next)) = (periods.last().and_then(|period| ends(period)), next.get(..10)) {
                finding
                    .holds(time::days(next) == Some(last + 1), || format!("{id}: next is {next}, after {periods:?}"));
            }
            if let Some(count) = cycle["occurrenceCount"].as_i64() {
                finding.holds(count == periods.len() as i64, || {
                    format!("{id}: {count} produced, {} there", periods.len())
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

fn gapless(finding: &mut Finding, id: &str, periods: &[&str]) {
    for pair in periods.windows(2) {
        let (end, begin) = (ends(pair[0]), begins(pair[1]));
        let next = end.is_some() && end.map(|day| day + 1) == begin;
        finding.holds(next, || format!("{id}: {} is followed by {}", pair[0], pair[1]));
    }
}
