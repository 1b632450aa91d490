//! docs/payments.md, Disputes: each dispute of the provider is known once, with its amount and its decision. Its payment,
//! its events and the settlements show the same. docs/billing.md: an invoice or link stays paid by a disputed payment.

use serde_json::Value;

use super::calendar::parse_time;
use super::{Evidence, ProviderDispute, Violations};

/// The state was read within some seconds, in milliseconds.
const READING: i64 = 60_000;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    let is_in_review = |dispute: &ProviderDispute| {
        dispute.payment.as_ref().is_some_and(|payment| evidence.books.in_review.contains(payment))
    };
    // What follows from an inquiry about such a payment is left to the operator, too.
    let (in_review, compared): (Vec<&ProviderDispute>, Vec<&ProviderDispute>) =
        evidence.books.disputes.iter().partition(|dispute| is_in_review(dispute));
    for theirs in &compared {
        let ours = theirs.ours.as_deref().and_then(|id| evidence.state.objects.get(id));
        let Some(ours) = ours else {
            violations.0.push(format!("a dispute is not known: {theirs:?}"));
            continue;
        };
        for fault in faults(evidence, theirs, ours) {
            violations.0.push(format!("{} {fault}: {ours}, {theirs:?}", ours["id"]));
        }
    }
    for ours in evidence.state.all("dispute") {
        let named = evidence.books.disputes.iter().filter(|theirs| ours["id"].as_str() == theirs.ours.as_deref());
        let count = named.count();
        violations.check(count == 1, || format!("the provider has {count} disputes for {ours}"));
        events(evidence, ours, violations);
    }
    for payment in evidence.state.all("payment") {
        amount_disputed(evidence, payment, violations);
    }
    if in_review.is_empty() {
        settlements(evidence, &compared, violations);
    }
}

fn faults(evidence: &Evidence<'_>, theirs: &ProviderDispute, ours: &Value) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut check = |holds: bool, fault| {
        if !holds {
            faults.push(fault)
        }
    };
    check(ours["paymentId"].as_str() == theirs.payment.as_deref(), "is of another payment");
    check(ours["amount"] == theirs.amount && ours["currency"] == theirs.currency.as_str(), "has another amount");
    let now = parse_time(&evidence.state.now).unwrap_or_default();
    let is_decided = theirs.decided_ms.is_none_or(|at| at <= now + READING) && ours["status"] == theirs.status.as_str();
    let is_open = theirs.decided_ms.is_some_and(|at| at > now - READING) && ours["status"] == "needs_response";
    check(is_decided || is_open, "has another status");
    let withdrawn = if ours["status"] == "won" { 0 } else { theirs.amount };
    check(theirs.withdrawn == withdrawn, "is won and its money withdrawn, or reverse");
    let decisions = decisions(evidence, ours);
    let expected: &[&[&str]] = match ours["status"].as_str() {
        Some("won") if theirs.is_decided_twice => &[&["won"], &["lost", "won"]],
        Some("won") => &[&["won"]],
        Some("lost") => &[&["lost"]],
        Some(_) | None => &[&[]],
    };
    check(expected.contains(&decisions.as_slice()), "has other events of its decisions");
    check(
        payable(evidence, ours).is_none_or(|payable| is_paid_by(payable, ours)),
        "has reopened what its payment paid",
    );
    faults
}

/// The invoice or link of the disputed payment.
fn payable<'a>(evidence: &'a Evidence<'_>, dispute: &Value) -> Option<&'a Value> {
    let payment = evidence.state.objects.get(dispute["paymentId"].as_str()?)?;
    evidence.state.objects.get(payment["invoiceId"].as_str().or(payment["paymentLinkId"].as_str())?)
}

/// A paid invoice can be voided, and a paid link has a final status.
fn is_paid_by(payable: &Value, dispute: &Value) -> bool {
    let is_invoice = payable["object"] == "invoice";
    let is_in_full = !is_invoice || payable["amountPaid"] == payable["amount"];
    let has_status = payable["status"] == "paid" || (is_invoice && payable["status"] == "voided");
    payable["paymentId"] == dispute["paymentId"] && payable.get("paidAt").is_some() && is_in_full && has_status
}

/// The decisions that events announce.
fn decisions<'a>(evidence: &'a Evidence<'_>, dispute: &Value) -> Vec<&'a str> {
    let announced = of_dispute(evidence, dispute).filter(|event| event["type"] == "dispute.closed");
    let mut decisions: Vec<&str> = announced.filter_map(|event| event["data"]["object"]["status"].as_str()).collect();
    decisions.sort_unstable();
    decisions
}

fn of_dispute<'a>(evidence: &'a Evidence<'_>, dispute: &Value) -> impl Iterator<Item = &'a Value> {
    let id = dispute["id"].clone();
    evidence.books.events.iter().filter(move |event| event["data"]["object"]["id"] == id)
}

/// The latest event of a dispute shows it as it is.
fn events(evidence: &Evidence<'_>, ours: &Value, violations: &mut Violations) {
    let shown = of_dispute(evidence, ours).map(|event| &event["data"]["object"]);
    let latest = shown.max_by_key(|shown| shown["version"].as_i64());
    violations.check(latest == Some(ours), || format!("the last event of a dispute shows {latest:?} of {ours}"));
}

/// What is withdrawn of a payment: of its disputes that are not won, and never more than was captured.
fn amount_disputed(evidence: &Evidence<'_>, payment: &Value, violations: &mut Violations) {
    let number = |object: &Value, field: &str| object[field].as_i64().unwrap_or(0);
    let is_withdrawn = |dispute: &&Value| dispute["paymentId"] == payment["id"] && dispute["status"] != "won";
    let withdrawn = evidence.state.all("dispute").filter(is_withdrawn);
    let withdrawn = withdrawn.map(|dispute| number(dispute, "amount")).sum::<i64>();
    let expected = withdrawn.min(number(payment, "amountCaptured"));
    violations.check(number(payment, "amountDisputed") == expected, || {
        format!("the disputes of a payment have withdrawn {expected}: {payment}")
    });
}

/// The days together show each movement of disputed money, and as much as the provider has withdrawn.
fn settlements(evidence: &Evidence<'_>, disputes: &[&ProviderDispute], violations: &mut Violations) {
    let totals = || evidence.state.settlements.iter().filter_map(|day| day["data"].as_array()).flatten();
    let sum = |field: &str| totals().filter_map(|total| total["disputes"][field].as_i64()).sum::<i64>();
    let withdrawn = disputes.iter().map(|dispute| dispute.withdrawn).sum::<i64>();
    let given_back = disputes.iter().filter(|dispute| dispute.withdrawn == 0).count();
    let movements = disputes.len() + given_back;
    violations.check(sum("amount") == withdrawn && sum("count") == movements as i64, || {
        format!("{movements} movements of disputed money have withdrawn {withdrawn}: {:?}", evidence.state.settlements)
    });
    for total in totals() {
        let of = |field: &str| total[field]["amount"].as_i64().unwrap_or(0);
        let net = of("payments") - of("refunds") - of("disputes");
        violations.check(total["net"] == net, || format!("a net of settlements is not {net}: {total}"));
    }
}
