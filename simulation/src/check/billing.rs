//! docs/billing.md, Subscriptions: each cycle is billed once, on its day.

use serde_json::{Value, json};

use super::calendar::{cycle, local_day, midnight, parse_day, parse_time, text};
use super::{Evidence, Violations};

/// Within this time of its beginning a cycle may not be billed yet.
const DELAY: i64 = 300_000;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    let Some(now) = parse_time(&evidence.state.now) else {
        return violations.0.push("the account's time is not known".to_owned());
    };
    for subscription in evidence.state.all("subscription") {
        let Some(plan) = subscription["planId"].as_str().and_then(|id| evidence.state.objects.get(id)) else {
            violations.0.push(format!("{subscription} has no plan"));
            continue;
        };
        let invoices = of(evidence, "subscriptionId", subscription);
        let failed = |invoice: &&Value| {
            let is_unpaid = ["open", "scheduled"].contains(&invoice["status"].as_str().unwrap_or_default());
            let attempts = invoice["id"].as_str().and_then(|id| evidence.state.attempts.get(id));
            is_unpaid && attempts.into_iter().flatten().any(|attempt| evidence.has_failed(attempt))
        };
        let is_past_due = invoices.iter().any(failed);
        let status = subscription["status"].as_str().unwrap_or_default();
        violations.check(is_past_due == (status == "past_due") || status == "cancelled", || {
            format!("{status} although its failed invoices say otherwise: {subscription}, {invoices:?}")
        });
        match faults(subscription, plan, &invoices, now) {
            Some(faults) if faults.is_empty() => {}
            faults => violations.0.push(format!("{faults:?} at {}: {subscription}, {invoices:?}", evidence.state.now)),
        }
        after_cancellation(evidence, subscription, &invoices, violations);
    }
}

/// The invoices of a subscription or recurring invoice, by period.
pub(super) fn of<'a>(evidence: &'a Evidence<'_>, field: &str, cycles: &Value) -> Vec<&'a Value> {
    let mut invoices: Vec<&Value> =
        evidence.state.all("invoice").filter(|invoice| invoice[field] == cycles["id"]).collect();
    invoices.sort_by_key(|invoice| invoice["billingPeriod"].as_str());
    invoices
}

/// `None` if a field is missing.
fn faults(subscription: &Value, plan: &Value, invoices: &[&Value], now: i64) -> Option<Vec<&'static str>> {
    let time = |field: &str| subscription[field].as_str().and_then(parse_time);
    let (zone, interval) = (subscription["timezone"].as_str()?, plan["interval"].as_str()?);
    let anchor = parse_day(subscription["startAt"].as_str()?)?;
    let date = |n: i64| cycle(anchor, interval, plan["intervalCount"].as_i64().unwrap_or(1), n);
    let today = local_day(zone, time("createdAt")?);
    let first = (0..).find(|n| date(*n) >= today)?;
    let billed = invoices.len() as i64;
    let begin = |n: i64| midnight(zone, date(first + n));
    let mut faults = Vec::new();
    let mut check = |holds: bool, fault| {
        if !holds {
            faults.push(fault)
        }
    };
    for (n, invoice) in (0..).zip(invoices) {
        let period = format!("{}/{}", text(date(first + n)), text(date(first + n + 1) - 1));
        check(invoice["billingPeriod"] == period, "a wrong or missing period");
        let issued = invoice["issuedAt"].as_str().and_then(parse_time)?;
        check(issued >= begin(n), "an invoice was issued early");
        let item = json!([{"description": plan["name"], "quantity": 1, "unitAmount": plan["amount"]}]);
        let is_of_plan = invoice["amount"] == plan["amount"]
            && invoice["currency"] == plan["currency"]
            && invoice["customerId"] == subscription["customerId"]
            && invoice["description"] == plan["name"]
            && invoice["paymentTerms"] == "due_on_receipt"
            && invoice["items"] == item;
        check(is_of_plan, "an invoice differs from the plan");
    }
    let current = (billed > 0).then(|| (begin(billed - 1), begin(billed)));
    check(current == time("currentPeriodStart").zip(time("currentPeriodEnd")), "a wrong current period");
    match time("cancelledAt") {
        None => {
            check(time("nextBillingAt") == Some(begin(billed)), "a wrong nextBillingAt");
            check(begin(billed) + DELAY > now, "a cycle was not billed");
        }
        Some(at) => check(billed == 0 || begin(billed - 1) <= at, "a cycle after the cancellation was billed"),
    }
    Some(faults)
}

/// Unpaid invoices leave collection when a subscription is cancelled: no attempt begins.
fn after_cancellation(evidence: &Evidence<'_>, subscription: &Value, invoices: &[&Value], violations: &mut Violations) {
    let Some(cancelled) = subscription["cancelledAt"].as_str().and_then(parse_time) else { return };
    for invoice in invoices {
        let is_collected = invoice["status"] == "scheduled" && !evidence.awaits_review(invoice);
        violations.check(!is_collected, || format!("still in collection after cancellation: {invoice}"));
        let attempts = invoice["id"].as_str().and_then(|id| evidence.state.attempts.get(id));
        for attempt in attempts.into_iter().flatten() {
            let at = attempt["attemptedAt"].as_str().and_then(parse_time);
            violations.check(at.is_some_and(|at| at <= cancelled) || evidence.has_wrong_clock(|_| true), || {
                format!("attempted after the cancellation at {}: {attempt}", subscription["cancelledAt"])
            });
        }
    }
}
