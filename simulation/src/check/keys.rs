//! docs/api.md, Idempotency: one object and one response for each key.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Evidence, Violations};
use crate::client::{ReceivedResponse, Response};
use crate::history::Request;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    let mut of_key: BTreeMap<(String, &str), Vec<(&Request, &ReceivedResponse)>> = BTreeMap::new();
    for (request, response) in evidence.responses() {
        match &request.key {
            Some(key) => of_key.entry((request.operation(), key)).or_default().push((request, response)),
            None => {
                let is_refund = response.json["object"] == "refund" && response.sent.1.get("externalId").is_some();
                violations
                    .check(is_refund || !response.is_replay(), || format!("{request} was replayed: {response:?}"));
            }
        }
    }
    for ((operation, key), responses) in of_key {
        one_response(&format!("{operation} with the key {key}"), &responses, violations);
    }
    refunds(evidence, violations);
    unkeyed(evidence, violations);
}

fn one_response(name: &str, responses: &[(&Request, &ReceivedResponse)], violations: &mut Violations) {
    let mut successes = responses.iter().map(|(_, response)| *response).filter(|response| response.succeeded());
    let Some(first) = successes.next() else { return };
    let mut last: Option<&ReceivedResponse> = None;
    for response in std::iter::once(first).chain(successes) {
        violations.check(response.json["id"] == first.json["id"], || {
            format!("{name} created {} and {}", first.json["id"], response.json["id"])
        });
        violations
            .check(response.sent.1 == first.sent.1, || format!("{name} was accepted with two bodies: {response:?}"));
        if response.json["status"] == "processing" {
            continue;
        }
        if let Some(last) = last.replace(response) {
            violations.check((last.status, &last.text) == (response.status, &response.text), || {
                format!("{name} returned {} {} and {} {}", last.status, last.text, response.status, response.text)
            });
        }
    }
    let originals = responses.iter().filter(|(_, response)| response.succeeded() && !response.is_replay()).count();
    violations.check(originals <= 1, || format!("{name} returned {originals} responses that are not replays"));
    for (_, response) in
        responses.iter().filter(|(_, response)| !response.succeeded() && response.sent_us > first.received_us)
    {
        let is_refusal = response.status == 422 && response.json["error"]["param"] == "Idempotency-Key";
        let expected = response.status >= 500 || (is_refusal && response.sent.1 != first.sent.1);
        violations.check(expected, || format!("{name} succeeded and later returned {response:?}"));
    }
}

/// Equal values of `externalId` stand for one refund of the payment, others for different ones.
fn refunds(evidence: &Evidence<'_>, violations: &mut Violations) {
    let mut of_id: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
    let mut others: BTreeMap<&str, u64> = BTreeMap::new();
    for (request, response) in evidence.responses().filter(|(_, response)| response.status == 202) {
        let (Some(id), sent) = (response.json["id"].as_str(), &response.sent) else { continue };
        match sent.1["externalId"].as_str() {
            Some(external) => {
                let first = of_id.entry((&sent.0, external)).or_insert(&response.json);
                let same = first["id"] == response.json["id"] && first["amount"] == response.json["amount"];
                violations.check(same, || format!("{request} returned {first} and {}", response.json));
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
        Some(Response::Received(response)) => response.status >= 400,
        Some(Response::Skipped) => true,
        Some(Response::Lost) | None => false,
    }
}
