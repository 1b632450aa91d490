//! docs/billing.md: invoices and links are paid once and in full, numbered without gaps, and collected as documented.

use serde_json::Value;

use super::calendar::{DAY, days_later, parse_time};
use super::ledger::is_kept;
use super::{Evidence, Line, Violations};

/// The retries, in days after the first attempt.
const BACKOFF: [i64; 4] = [1, 3, 5, 7];
/// Retries that an outage delayed are at least this far apart.
const SHORTEST: i64 = DAY / 24 * 20;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    let mut numbers: Vec<&str> =
        evidence.state.all("invoice").filter_map(|invoice| invoice["number"].as_str()).collect();
    numbers.sort_unstable();
    for (index, number) in numbers.iter().enumerate() {
        violations.check(*number == format!("INV-{:06}", index + 1), || format!("{number} follows a gap or is double"));
    }
    for payable in evidence.state.all("invoice") {
        paid(evidence, payable, "invoiceId", violations);
        charged_once(evidence, payable, "invoiceId", violations);
    }
    for payable in evidence.state.all("payment_link") {
        paid(evidence, payable, "paymentLinkId", violations);
        charged_once(evidence, payable, "paymentLinkId", violations);
    }
    for (id, attempts) in &evidence.state.attempts {
        for fault in attempts_faults(evidence, &evidence.state.objects[id], attempts) {
            violations.0.push(format!("{id}: {fault}: {attempts:?}"));
        }
    }
    acknowledged(evidence, violations);
    expiry(evidence, violations);
}

/// Paid by exactly one payment, over the whole amount; unpaid without one that shows money.
fn paid(evidence: &Evidence<'_>, payable: &Value, field: &str, violations: &mut Violations) {
    let of_payable: Vec<&Value> =
        evidence.state.all("payment").filter(|payment| payment[field] == payable["id"]).collect();
    let is_part = |payment: &&&Value| payment["amount"].as_i64() < payment["amountRequested"].as_i64();
    let is_live = |payment: &&&Value| {
        let status = payment["status"].as_str().unwrap_or_default();
        !["processing", "declined", "failed"].contains(&status)
    };
    for payment in &of_payable {
        let same = payment["amountRequested"] == payable["amount"] && payment["currency"] == payable["currency"];
        let customer = field != "invoiceId" || payment["customerId"] == payable["customerId"];
        violations.check(same && customer, || format!("{payment} is not of {payable}"));
        if is_part(&payment) && is_live(&payment) {
            let is_reversed = ["cancelled", "refunded"].contains(&payment["status"].as_str().unwrap_or_default());
            violations.check(is_reversed, || format!("a partial authorization was kept: {payment}"));
        }
    }
    let full: Vec<&&Value> = of_payable.iter().filter(is_live).filter(|payment| !is_part(payment)).collect();
    let is_paid = payable.get("paidAt").is_some();
    let names = full.iter().all(|payment| payment["id"] == payable["paymentId"]);
    violations.check(full.len() == usize::from(is_paid) && names, || format!("{payable} has the payments {full:?}"));
    // What a dispute has withdrawn is no refund.
    let refunded = |object: &Value| object["amountRefunded"].as_i64().unwrap_or(0);
    let is_same = full.iter().all(|payment| refunded(payment) == refunded(payable));
    violations.check(field != "invoiceId" || is_same, || format!("{payable} shows another refund than {full:?}"));
}

/// At most one charge was taken and not given back, whatever the payments show.
fn charged_once(evidence: &Evidence<'_>, payable: &Value, field: &str, violations: &mut Violations) {
    let is_of_payable = |line: &&Line| {
        let payment = line.payment.as_deref().and_then(|id| evidence.state.objects.get(id));
        payment.is_some_and(|payment| payment[field] == payable["id"])
    };
    let kept: Vec<&Line> =
        evidence.ledger.iter().filter(is_of_payable).filter(|line| is_kept(evidence, line)).collect();
    violations.check(kept.len() <= 1, || format!("{payable} was charged more than once: {kept:?}"));
}

fn attempts_faults(evidence: &Evidence<'_>, invoice: &Value, attempts: &[Value]) -> Vec<&'static str> {
    let zone = evidence.history.timezone();
    let mut faults = Vec::new();
    let mut check = |holds: bool, fault| {
        if !holds {
            faults.push(fault)
        }
    };
    // Since the beginning of a series of retries.
    let (mut first, mut failures, mut announced) = (0, 0, None);
    for (index, attempt) in attempts.iter().enumerate() {
        let at = attempt["attemptedAt"].as_str().and_then(parse_time).unwrap_or(0);
        check(attempt["number"] == index as u64 + 1, "a wrong number");
        check(attempt["amount"] == invoice["amount"], "a wrong amount");
        check(announced.is_none_or(|announced| at >= announced), "an attempt was made before it was due");
        if announced.is_none() {
            (first, failures) = (at, 0);
        }
        let (status, code) = (attempt["status"].as_str(), attempt["declineCode"].as_str());
        announced = attempt["nextAttemptAt"].as_str().and_then(parse_time);
        if let Some(next) = announced.take_if(|_| code == Some("no_payment_method")) {
            // The named card was detached: another series begins at once, with the default card.
            check(at <= next, "a retry before its attempt");
        } else if let Some(next) = announced {
            let planned = BACKOFF.get(failures).map(|days| days_later(zone, first, *days));
            // An outcome that a fault delays is later than the attempt, and the retry follows the outcome.
            let is_apart = next - at == SHORTEST || (next - at > SHORTEST && !evidence.history.faults.is_empty());
            let is_late = planned.is_some_and(|planned| next > planned) && is_apart;
            check(planned == Some(next) || is_late, "a retry on a wrong day");
            failures += 1;
        }
        let payment = attempt["paymentId"].as_str().and_then(|id| evidence.state.objects.get(id));
        check(payment.is_none_or(|payment| payment["invoiceId"] == invoice["id"]), "a payment of something else");
        match payment.and_then(|payment| payment["status"].as_str()) {
            Some("declined") => check(status == Some("failed"), "declined and not failed"),
            Some("cancelled" | "refunded") if code == Some("partial_authorization") => {}
            Some("failed") => check(status == Some("failed"), "failed only at the provider"),
            Some(_) if payment.is_some_and(|payment| evidence.is_in_review(payment)) => {
                check(status == Some("unknown"), "not unknown although its payment is in review")
            }
            Some(_) => {
                check(status == Some("succeeded") && invoice["paymentId"] == attempt["paymentId"], "not succeeded")
            }
            None => check(code == Some("no_payment_method"), "no payment"),
        }
    }
    faults
}

/// A voided invoice and a cancelled link stay so, and are not paid.
fn acknowledged(evidence: &Evidence<'_>, violations: &mut Violations) {
    for (request, response) in evidence.responses().filter(|(_, response)| response.status == 200) {
        let expected = match request.operation().as_str() {
            "POST /v1/invoices/{id}/void" => "voided",
            "POST /v1/payment_links/{id}/cancel" | "POST /v1/subscriptions/{id}/cancel" => "cancelled",
            "POST /v1/recurring_invoices/{id}/cancel" => "cancelled",
            _ => continue,
        };
        let object = response.json["id"].as_str().and_then(|id| evidence.state.objects.get(id));
        let is_so = response.json["status"] == expected && object.is_some_and(|object| object["status"] == expected);
        let is_unpaid = object.is_some_and(|object| object["paidAt"] == response.json["paidAt"]);
        violations.check(is_so && is_unpaid, || format!("{request} returned {} and then {object:?}", response.json));
    }
}

/// A link expires at its time, and not earlier.
fn expiry(evidence: &Evidence<'_>, violations: &mut Violations) {
    let Some(now) = parse_time(&evidence.state.now) else { return };
    for link in evidence.state.all("payment_link") {
        let Some(at) = link["expiresAt"].as_str().and_then(parse_time) else { continue };
        // The state was read within some seconds.
        let is_right = match link["status"].as_str() {
            Some("expired") => at <= now + 60_000,
            Some("open") => at > now || evidence.awaits_review(link),
            _ => true,
        };
        violations.check(is_right, || format!("at {} there is {link}", evidence.state.now));
        // The outcome may be known later, or entered by an operator.
        let payment = link["paymentId"].as_str().and_then(|id| evidence.state.objects.get(id));
        let began = payment.and_then(|payment| payment["createdAt"].as_str()).and_then(parse_time);
        violations.check(began.is_none_or(|began| began <= at), || format!("was paid after it expired: {link}"));
    }
}
