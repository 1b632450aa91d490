//! Every response has a documented status and the form that docs/api.md describes.

use serde_json::Value;

use super::{Evidence, Violations};
use crate::client::ReceivedResponse;
use crate::history::{Content, Provider, Request};
use crate::system::Role;

/// The successes and refusals of each operation, for objects that exist. Besides, creations may be refused because of
/// their key (422), and every request if the server fails.
const STATUSES: &[(&str, &[u16])] = &[
    ("POST /v1/customers", &[201]),
    ("POST /v1/customers/{id}", &[200]),
    ("POST /v1/payment_methods", &[201, 409, 422]),
    ("GET /v1/payment_methods", &[200]),
    ("POST /v1/payment_methods/{id}/default", &[200, 409]),
    ("DELETE /v1/payment_methods/{id}", &[200, 409]),
    ("POST /v1/payments", &[201, 422]),
    ("POST /v1/payments/{id}/capture", &[200, 409, 422]),
    ("POST /v1/payments/{id}/void", &[200, 409]),
    ("POST /v1/payments/{id}/refund", &[202, 409, 422]),
    ("GET /v1/payments/{id}", &[200]),
    ("GET /v1/payments", &[200]),
    ("POST /v1/plans", &[200, 201]),
    ("POST /v1/subscriptions", &[201, 422]),
    ("POST /v1/subscriptions/{id}/cancel", &[200]),
    ("GET /v1/subscriptions", &[200]),
    ("POST /v1/invoices", &[201]),
    ("GET /v1/invoices/{id}", &[200]),
    ("GET /v1/invoices", &[200]),
    ("GET /v1/invoices/{id}/attempts", &[200]),
    ("POST /v1/invoices/{id}/void", &[200, 409]),
    ("POST /v1/invoices/{id}/schedule", &[200, 409, 422]),
    ("POST /v1/invoices/{id}/cancel_schedule", &[200, 409]),
    ("POST /v1/invoices/scheduler/run", &[200]),
    ("POST /v1/recurring_invoices", &[201, 422]),
    ("POST /v1/recurring_invoices/{id}", &[200, 409]),
    ("POST /v1/recurring_invoices/{id}/pause", &[200, 409]),
    ("POST /v1/recurring_invoices/{id}/resume", &[200, 409]),
    ("POST /v1/recurring_invoices/{id}/cancel", &[200]),
    ("POST /v1/payment_links", &[201, 422]),
    ("GET /v1/payment_links/{id}", &[200]),
    ("POST /v1/payment_links/{id}/cancel", &[200, 409]),
    ("GET /v1/disputes", &[200]),
    ("GET /v1/test_clock", &[200]),
    ("POST /v1/test_clock/advance", &[200, 409, 422]),
    ("GET page", &[200]),
    ("GET challenge", &[200, 303]),
    ("GET challenge/return", &[200, 303]),
    ("POST page", &[200, 303, 409, 422]),
];

/// The bank is not part of the API: it has statuses of its own, is limited by address, and fails with its Postgres.
const BANK_STATUSES: &[u16] = &[200, 303, 429, 503];

/// The code of each status of an error.
const CODES: &[(u16, &str)] = &[
    (404, "not_found"),
    (409, "conflict"),
    (422, "invalid_request"),
    (429, "rate_limited"),
    (500, "api_error"),
    (503, "api_error"),
];

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    for (request, response) in evidence.responses() {
        let status = response.status;
        if request.operation().ends_with(" bank") {
            violations.check(BANK_STATUSES.contains(&status), || format!("{request} returned {status}: {response:?}"));
            continue;
        }
        violations
            .check(is_documented(evidence, request, response), || format!("{request} returned {status}: {response:?}"));
        let is_api = request.path.starts_with("/v1");
        for fault in headers(response).into_iter().chain(is_api.then(|| body(response)).flatten()) {
            violations.0.push(format!("{request} returned {status} with {fault}: {response:?}"));
        }
    }
}

fn is_documented(evidence: &Evidence<'_>, request: &Request, response: &ReceivedResponse) -> bool {
    let operation = request.operation();
    let statuses = STATUSES.iter().find(|(name, _)| *name == operation).map_or(&[] as &[u16], |(_, statuses)| statuses);
    match response.status {
        500 => evidence.history.breaks_postgres(),
        503 => {
            let changes = request.content != Content::None;
            evidence.history.breaks_postgres() || (changes && evidence.has_wrong_clock(|role| role == Role::Api))
        }
        404 => names_detached_card(evidence, response),
        // A token of a card field can be spent once.
        409 if !evidence.history.uses_only(Provider::Mock) && operation == "POST /v1/payments" => true,
        422 if request.key.is_some() && response.json["error"]["param"] == "Idempotency-Key" => true,
        status => statuses.contains(&status),
    }
}

fn names_detached_card(evidence: &Evidence<'_>, response: &ReceivedResponse) -> bool {
    let (path, body) = &response.sent;
    evidence
        .detached()
        .filter_map(|card| card["id"].as_str())
        .any(|id| path.contains(id) || body["paymentMethodId"] == id)
}

/// What is wrong with the headers.
fn headers(response: &ReceivedResponse) -> Option<String> {
    let header = |name: &str| response.headers.get(name).map_or("", String::as_str);
    let required = [("cache-control", "no-store"), ("x-content-type-options", "nosniff")];
    let wrong = required.iter().find(|(name, value)| header(name) != *value).map(|(name, _)| format!("a wrong {name}"));
    wrong.or_else(|| header("request-id").is_empty().then(|| "no Request-Id".to_owned()))
}

/// What is wrong with the body.
fn body(response: &ReceivedResponse) -> Option<String> {
    if response.status >= 400 {
        return error(response);
    }
    if has_null(&response.json) {
        return Some("null".to_owned());
    }
    let object = response.json["object"].as_str().unwrap_or_default();
    match object {
        // The result of a scheduler run is the only one without a type.
        "" if response.json["claimed"].is_null() => Some("no type".to_owned()),
        "" => {
            let [claimed, collected, released] =
                ["claimed", "collected", "released"].map(|field| response.json[field].as_u64());
            let sum = collected.zip(released).map(|(collected, released)| collected + released);
            (claimed != sum).then(|| "a wrong sum".to_owned())
        }
        "list" => {
            let has_more = response.json["hasMore"] == true;
            let last = response.json["data"].as_array().and_then(|data| Some(data.last()?["id"].clone()));
            let cursor = response.json.get("nextCursor").cloned();
            let is_right = response.json["data"].is_array()
                && if has_more { last.is_some() && cursor == last } else { cursor.is_none() };
            (!is_right).then(|| "a wrong cursor".to_owned())
        }
        "test_clock" => None,
        _ => {
            let was_deleted = response.json["deleted"] == true;
            let complete = response.json["id"].is_string() && (was_deleted || response.json["livemode"] == false);
            (!complete).then(|| "no id or livemode".to_owned())
        }
    }
}

fn error(response: &ReceivedResponse) -> Option<String> {
    let error = &response.json["error"];
    let [code, message, id, url] = ["code", "message", "requestId", "docUrl"].map(|field| error[field].as_str());
    let code = code.unwrap_or_default();
    if CODES.iter().find(|(status, _)| *status == response.status).map(|(_, code)| *code) != Some(code) {
        return Some("a wrong code".to_owned());
    }
    if message.is_none_or(str::is_empty) || id != response.headers.get("request-id").map(String::as_str) {
        return Some("no message or another requestId".to_owned());
    }
    if !url.is_some_and(|url| url.ends_with(&format!("#error-{code}"))) {
        return Some("a wrong docUrl".to_owned());
    }
    let has_param = error["param"].is_string();
    (has_param != (response.status == 422)).then(|| "a wrong param".to_owned())
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
