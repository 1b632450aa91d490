//! docs/api.md, Idempotency: one object and one response for each key.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Evidence, Violations};
use crate::client::{Answer, Response};
use crate::history::Request;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    let mut of_key: BTreeMap<(String, &str), Vec<(&Request, &Answer)>> = BTreeMap::new();
    for (request, answer) in evidence.answers() {
        match &request.key {
            Some(key) => of_key.entry((request.operation(), key)).or_default().push((request, answer)),
            None => {
                let is_refund = answer.json["object"] == "refund" && answer.sent.1.get("externalId").is_some();
                violations.check(is_refund || !answer.is_replay(), || format!("{request} was replayed: {answer:?}"));
            }
        }
    }
    for ((operation, key), answers) in of_key {
        one_response(&format!("{operation} with the key {key}"), &answers, violations);
    }
    refunds(evidence, violations);
    unkeyed(evidence, violations);
}

fn one_response(name: &str, answers: &[(&Request, &Answer)], violations: &mut Violations) {
    let mut successes = answers.iter().map(|(_, answer)| *answer).filter(|answer| answer.succeeded());
    let Some(first) = successes.next() else { return };
    let mut last: Option<&Answer> = None;
    for answer in std::iter::once(first).chain(successes) {
        violations.check(answer.json["id"] == first.json["id"], || {
            format!("{name} created {} and {}", first.json["id"], answer.json["id"])
        });
        violations.check(answer.sent.1 == first.sent.1, || format!("{name} was accepted with two bodies: {answer:?}"));
        if answer.json["status"] == "processing" {
            continue;
        }
        if let Some(last) = last.replace(answer) {
            violations.check((last.status, &last.text) == (answer.status, &answer.text), || {
                format!("{name} returned {} {} and {} {}", last.status, last.text, answer.status, answer.text)
            });
        }
    }
    let originals = answers.iter().filter(|(_, answer)| answer.succeeded() && !answer.is_replay()).count();
    violations.check(originals <= 1, || format!("{name} returned {originals} responses that are not replays"));
    for (_, answer) in answers.iter().filter(|(_, answer)| !answer.succeeded() && answer.sent_us > first.received_us) {
        let is_refusal = answer.status == 422 && answer.json["error"]["param"] == "Idempotency-Key";
        let expected = answer.status >= 500 || (is_refusal && answer.sent.1 != first.sent.1);
        violations.check(expected, || format!("{name} succeeded and later returned {answer:?}"));
    }
}

/// Equal values of `externalId` stand for one refund of the payment, others for different ones.
fn refunds(evidence: &Evidence<'_>, violations: &mut Violations) {
    let mut of_id: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
    let mut others: BTreeMap<&str, u64> = BTreeMap::new();
    for (request, answer) in evidence.answers().filter(|(_, answer)| answer.status == 202) {
        let (Some(id), sent) = (answer.json["id"].as_str(), &answer.sent) else { continue };
        match sent.1["externalId"].as_str() {
            Some(external) => {
                let first = of_id.entry((&sent.0, external)).or_insert(&answer.json);
                let same = first["id"] == answer.json["id"] && first["amount"] == answer.json["amount"];
                violations.check(same, || format!("{request} returned {first} and {}", answer.json));
            }
            None => *others.entry(id).or_default() += 1,
        }
    }
    for (id, count) in others {
        violations.check(count == 1, || format!("{count} refunds without an externalId are all {id}"));
    }
}

/// Without a key each payment has one request, which was not refused. Amounts are different in all requests.
fn unkeyed(evidence: &Evidence<'_>, violations: &mut Violations) {
    let is_direct = |payment: &&Value| payment.get("invoiceId").or(payment.get("paymentLinkId")).is_none();
    let direct: Vec<&Value> = evidence.state.all("payment").filter(is_direct).collect();
    for payment in &direct {
        let requests = evidence.history.requests.iter().zip(evidence.responses);
        let possible = requests.filter(|(timed, response)| {
            let is_sent = timed.request.json().is_some_and(|body| body["amount"] == payment["amountRequested"]);
            is_sent && timed.request.path == "/v1/payments" && !is_refused(response.as_ref())
        });
        let possible: Vec<_> = possible.collect();
        let count = direct.iter().filter(|other| other["amountRequested"] == payment["amountRequested"]).count();
        let allowed = if possible.iter().any(|(timed, _)| timed.request.key.is_some()) { 1 } else { possible.len() };
        violations.check(count <= allowed, || {
            format!("{count} payments of {} for {allowed} requests: {payment}", payment["amountRequested"])
        });
    }
}

/// docs/api.md, Errors: nothing was done.
fn is_refused(response: Option<&Response>) -> bool {
    match response {
        Some(Response::Received(answer)) => answer.status >= 400,
        Some(Response::Skipped) => true,
        Some(Response::Lost) | None => false,
    }
}
