//! The payments show what the provider did, and the provider did only what was requested.

use std::collections::BTreeMap;

use serde_json::Value;

use super::calendar::{DAY, local_day, midnight, parse_time};
use super::{Anomaly, Evidence, Line, Violations};
use crate::history::Provider;

/// The mock settles a minute after capture, and an authorization lasts a week: docs/elements.md. The card gateway settles
/// at the end of the day of its account: docs/gateway.md. Money at Stripe is available after six hours.
const SETTLES_AFTER: i64 = 60_000;
const AVAILABLE_AFTER: i64 = 6 * 3_600_000;
const AUTHORIZATION: i64 = 7 * DAY;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    let mut of_payment: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in &evidence.ledger {
        let payment = line.payment.as_deref().filter(|id| evidence.state.objects.contains_key(*id));
        violations.check(payment.is_some(), || format!("the provider's {line:?} belongs to no payment"));
        of_payment.entry(payment.unwrap_or_default()).or_default().push(line);
    }
    for payment in evidence.state.all("payment") {
        let lines = of_payment.remove(payment["id"].as_str().unwrap_or_default()).unwrap_or_default();
        if evidence.is_in_review(payment) {
            let charges = lines.iter().filter(|line| line.is_charge()).count();
            violations.check(charges <= 1, || format!("{payment} was charged more than once: {lines:?}"));
            continue;
        }
        for fault in faults(evidence, payment, &lines) {
            violations.0.push(format!("{} {fault}: {payment}, {lines:?}", payment["id"]));
        }
        times(evidence, &lines, violations);
    }
    anomalies(evidence, violations);
    matched(evidence, violations);
    for given_up in &evidence.books.given_up {
        let is_allowed = given_up.is_refused || given_up.tried_ms >= DAY;
        violations.check(is_allowed, || format!("was given up early, and the provider has not decided: {given_up:?}"));
    }
    for noticed in &evidence.books.noticed {
        violations.0.push(format!("an operator noticed: {noticed}"));
    }
    violations.check(evidence.books.differences == 0, || {
        format!("{} differences from the provider's statement", evidence.books.differences)
    });
    violations.check(evidence.books.acquirer_differences == 0, || {
        format!("{} differences of the card gateway from its acquirer", evidence.books.acquirer_differences)
    });
    violations.check(evidence.books.shared_accounts == 0, || {
        format!("{} accounts share an account at a provider with another", evidence.books.shared_accounts)
    });
    acknowledged(evidence, violations);
}

/// Each line belongs to an operation that has recorded it, or is reported as an anomaly. Others count as differences.
fn matched(evidence: &Evidence<'_>, violations: &mut Violations) {
    for line in evidence.ledger.iter().filter(|line| line.approved) {
        let is_recorded = line.state.as_deref() == Some("succeeded") && line.recorded.as_ref() == Some(&line.id);
        let is_reported = evidence.books.anomalies.iter().any(|anomaly| anomaly.charge == line.id);
        let is_in_review = line.payment.as_ref().is_some_and(|id| evidence.books.in_review.contains(id));
        let is_matched = is_recorded || is_reported || is_in_review;
        violations.check(is_matched, || format!("is neither recorded nor reported: {line:?}"));
    }
}

/// The sum of what was refunded of a charge.
pub(super) fn refunded(evidence: &Evidence<'_>, charge: &Line) -> i64 {
    let refunds = evidence.ledger.iter().filter(|line| line.kind == "refund" && line.approved);
    refunds.filter(|refund| refund.parent.as_ref() == Some(&charge.id)).map(|refund| refund.amount).sum()
}

/// Whether money was taken and not given back.
pub(super) fn is_kept(evidence: &Evidence<'_>, charge: &Line) -> bool {
    charge.is_charge() && !charge.voided && !charge.expired && refunded(evidence, charge) < charge.amount
}

/// A charge belongs to no payment only if the provider added a fee to it, and it is returned in full.
fn anomalies(evidence: &Evidence<'_>, violations: &mut Violations) {
    for anomaly in &evidence.books.anomalies {
        let payment = evidence.state.objects.get(&anomaly.payment);
        let charge = evidence.ledger.iter().find(|line| line.id == anomaly.charge);
        let is_expected = evidence.has_fee()
            && anomaly.is_mismatch
            && payment.is_some_and(|payment| payment["failureCode"] == "amount_mismatch")
            && charge.is_some_and(|charge| payment.is_some_and(|payment| payment["amount"] != charge.amount));
        violations
            .check(is_expected, || format!("{anomaly:?} is no charge of a wrong amount: {charge:?}, {payment:?}"));
        let is_returned = anomaly.is_returned && charge.is_some_and(|charge| !is_kept(evidence, charge));
        violations.check(is_returned, || format!("{anomaly:?} was not returned: {charge:?}"));
    }
    for payment in evidence.state.all("payment").filter(|payment| payment["failureCode"] == "amount_mismatch") {
        let of_payment = |anomaly: &&Anomaly| payment["id"] == anomaly.payment.as_str();
        let count = evidence.books.anomalies.iter().filter(of_payment).count();
        violations.check(count == 1, || format!("{count} charges of a wrong amount instead of one: {payment}"));
    }
}

fn faults(evidence: &Evidence<'_>, payment: &Value, lines: &[&Line]) -> Vec<&'static str> {
    let number = |field: &str| payment[field].as_i64().unwrap_or(0);
    let sum = |kind: &str| -> i64 {
        lines.iter().filter(|line| line.kind == kind && line.approved).map(|line| line.amount).sum()
    };
    let charges: Vec<&&Line> = lines.iter().filter(|line| line.is_charge()).collect();
    let mut faults = Vec::new();
    let mut check = |holds: bool, fault| {
        if !holds {
            faults.push(fault)
        }
    };
    let has_money = !["processing", "declined", "failed"].contains(&payment["status"].as_str().unwrap_or_default());
    let live = charges.iter().filter(|line| has_money || is_kept(evidence, line)).count();
    check(live == usize::from(has_money), "has another number of approved charges than one if it shows money");
    check(lines.iter().all(|line| payment["currency"] == line.currency.as_str()), "has another currency");
    let declines = lines.iter().filter(|line| !line.approved);
    check(
        declines.map(|line| line.decline_code.as_deref()).all(|code| code == payment["declineCode"].as_str()),
        "was declined for another reason",
    );
    let [charge] = charges.as_slice() else { return faults };
    let captured = if charge.kind == "sale" { charge.amount } else { sum("capture") };
    let is = |status: &str| payment["status"] == status;
    check((charge.kind == "sale") == (payment["capture"] == true), "was captured although not requested, or reverse");
    check(captured <= charge.amount && sum("refund") <= captured, "exceeds what was authorized");
    check(lines.iter().filter(|line| line.kind == "capture").count() <= 1, "was captured twice");
    if !has_money {
        return faults;
    }
    check(charge.amount == number("amount"), "shows another amount than authorized");
    check(captured == number("amountCaptured") || is("cancelled"), "shows another amount than captured");
    check(charge.voided == is("cancelled"), "is cancelled or voided, but not both");
    check(
        charge.settled == (payment["settled"] == true) || is_ahead(evidence, charge, payment["settled"] == true),
        "is settled only here or only there",
    );
    check(
        charge.expired == is("expired") || is_ahead(evidence, charge, is("expired")),
        "is expired only here or only there",
    );
    check(sum("refund") == number("amountRefunded"), "shows another amount than refunded");
    let refunds = payment["refunds"].as_array().into_iter().flatten();
    let mut shown: Vec<i64> = refunds
        .filter(|refund| refund["status"] == "succeeded")
        .filter_map(|refund| refund["amount"].as_i64())
        .collect();
    let mut made: Vec<i64> = lines.iter().filter(|line| line.kind == "refund").map(|line| line.amount).collect();
    shown.sort_unstable();
    made.sort_unstable();
    check(shown == made, "shows other refunds");
    faults
}

/// Whether a charge ended here, and at its provider will end later: a test clock has an effect on the mock only.
fn is_ahead(evidence: &Evidence<'_>, charge: &Line, ended: bool) -> bool {
    let requests = &evidence.history.requests;
    ended
        && charge.provider != Provider::Mock
        && requests.iter().any(|step| step.request.path == "/v1/test_clock/advance")
}

/// Nothing settles or expires early, by the account's clock.
fn times(evidence: &Evidence<'_>, lines: &[&Line], violations: &mut Violations) {
    let Some(now) = parse_time(&evidence.state.now) else { return };
    let Some(charge) = lines.iter().find(|line| line.is_charge()) else { return };
    let capture = lines.iter().find(|line| line.kind == "capture").unwrap_or(charge);
    let settles_at = match charge.provider {
        Provider::Mock => capture.occurred_ms + SETTLES_AFTER,
        Provider::CardGateway => {
            let zone = evidence.history.gateway_zone();
            midnight(zone, local_day(zone, capture.occurred_ms) + 1)
        }
        Provider::Stripe => capture.occurred_ms + AVAILABLE_AFTER,
    };
    // The state was read within some seconds.
    let latest = now + 60_000;
    let is_early =
        (charge.settled && settles_at > latest) || (charge.expired && charge.occurred_ms + AUTHORIZATION > latest);
    violations.check(!is_early, || format!("{charge:?} ended early, before {}", evidence.state.now));
}

/// A capture, void or refund that was acknowledged as done is done.
fn acknowledged(evidence: &Evidence<'_>, violations: &mut Violations) {
    for (request, response) in evidence.responses().filter(|(_, response)| response.succeeded()) {
        let (object, operation) = (&response.json, request.operation());
        let Some(payment) = object["id"].as_str().and_then(|id| evidence.state.objects.get(id)) else { continue };
        let is_final = object.get("pendingOperation").is_none();
        if operation == "POST /v1/payments/{id}/capture" && is_final {
            let amount = response.sent.1.get("amount").unwrap_or(&object["amount"]);
            let is_done = object["amountCaptured"] == *amount
                && (payment["amountCaptured"] == *amount || payment["status"] == "cancelled");
            violations.check(is_done, || format!("{request} returned {object} and is {payment}"));
        } else if operation == "POST /v1/payments/{id}/void" && is_final {
            let is_done = object["status"] == "cancelled" && payment["status"] == "cancelled";
            violations.check(is_done, || format!("{request} returned {object} and is {payment}"));
        }
    }
}
