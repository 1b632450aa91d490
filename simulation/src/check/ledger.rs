//! The payments show what the provider did, and the provider did only what was requested.

use std::collections::BTreeMap;

use serde_json::Value;

use super::calendar::{DAY, parse_time};
use super::{Evidence, Line, Violations};

/// The mock settles a minute after capture; an authorization lasts a week: docs/elements.md.
const SETTLES_AFTER: i64 = 60_000;
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
        for fault in faults(payment, &lines) {
            violations.0.push(format!("{} {fault}: {payment}, {lines:?}", payment["id"]));
        }
        times(evidence, &lines, violations);
    }
    violations.check(evidence.books.differences == 0, || {
        format!("{} differences from the provider's statement", evidence.books.differences)
    });
    acknowledged(evidence, violations);
}

fn faults(payment: &Value, lines: &[&Line]) -> Vec<&'static str> {
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
    let live = charges.iter().filter(|line| has_money || !line.voided).count();
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
    if has_money {
        check(charge.amount == number("amount"), "shows another amount than authorized");
        check(captured == number("amountCaptured") || is("cancelled"), "shows another amount than captured");
        check(charge.voided == is("cancelled"), "is cancelled or voided, but not both");
        check(charge.settled == (payment["settled"] == true), "is settled only here or only there");
        check(charge.expired == is("expired"), "is expired only here or only there");
    }
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
    check(captured <= charge.amount && sum("refund") <= captured, "exceeds what was authorized");
    check(lines.iter().filter(|line| line.kind == "capture").count() <= 1, "was captured twice");
    faults
}

/// Nothing settles or expires early, by the account's clock.
fn times(evidence: &Evidence<'_>, lines: &[&Line], violations: &mut Violations) {
    let Some(now) = parse_time(&evidence.state.now) else { return };
    let Some(charge) = lines.iter().find(|line| line.is_charge()) else { return };
    let capture = lines.iter().find(|line| line.kind == "capture").unwrap_or(charge);
    // The state was read within some seconds.
    let latest = now + 60_000;
    let is_early = (charge.settled && capture.occurred_ms + SETTLES_AFTER > latest)
        || (charge.expired && charge.occurred_ms + AUTHORIZATION > latest);
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
