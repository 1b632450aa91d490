//! Assertions on API responses. They report the line of the caller.

use serde_json::Value;
use testkit::Response;

/// Asserts 200 and returns the body.
#[track_caller]
pub(crate) fn ok(response: &Response) -> &Value {
    expect_status(response, 200)
}

/// Asserts 201 and returns the body.
#[track_caller]
pub(crate) fn created(response: &Response) -> &Value {
    expect_status(response, 201)
}

/// Asserts 202 and returns the body.
#[track_caller]
pub(crate) fn accepted(response: &Response) -> &Value {
    expect_status(response, 202)
}

#[track_caller]
fn expect_status(response: &Response, status: u16) -> &Value {
    assert_eq!(response.status, status, "{}", response.body);
    assert!(response.header("request-id").is_some(), "every response has a Request-Id");
    &response.body
}

/// Asserts an error of the API's common shape and returns its `error` object.
#[track_caller]
pub(crate) fn refused<'a>(response: &'a Response, status: u16, code: &str) -> &'a Value {
    let error = &expect_status(response, status)["error"];
    assert_eq!(error["code"], code, "{}", response.body);
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{}", response.body);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(error["requestId"].as_str(), response.header("request-id"), "{}", response.body);
    let documented = error["docUrl"].as_str().is_some_and(|url| url.ends_with(&format!("/docs#error-{code}")));
    assert!(documented, "{}", response.body);
    assert_eq!(response.header("www-authenticate"), (status == 401).then_some("Bearer"));
    assert_eq!(
        (response.header("cache-control"), response.header("x-content-type-options")),
        (Some("no-store"), Some("nosniff"))
    );
    error
}

/// Asserts a 422 that names this field.
#[track_caller]
pub(crate) fn invalid(response: &Response, param: &str) {
    let error = refused(response, 422, "invalid_request");
    assert_eq!(error["param"], param, "{}", response.body);
}

/// The body of an error without the requested id and the request id, so that two errors can be compared.
pub(crate) fn error_text(response: &Response, id: &str) -> String {
    let request = response.header("request-id").unwrap_or("none");
    String::from_utf8_lossy(&response.bytes).replace(id, "{id}").replace(request, "{request}")
}

/// Asserts 404 `not_found`.
#[track_caller]
pub(crate) fn not_found(response: &Response) {
    refused(response, 404, "not_found");
}

/// Asserts 409 `conflict`.
#[track_caller]
pub(crate) fn conflict(response: &Response) {
    refused(response, 409, "conflict");
}

/// Whether it repeats the response to an earlier request.
pub(crate) fn is_replay(response: &Response) -> bool {
    response.header("idempotent-replayed") == Some("true")
}

/// The ids on a page, in its order. Checks `hasMore` and `nextCursor`.
#[track_caller]
pub(crate) fn ids(page: &Response) -> Vec<String> {
    let body = ok(page);
    assert_eq!(body["object"], "list");
    let rows = body["data"].as_array().expect("a list has data");
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().expect("a row has an id").to_owned()).collect();
    if body["hasMore"] == true {
        assert_eq!(body["nextCursor"].as_str(), ids.last().map(String::as_str), "the cursor is the id of the last row");
    } else {
        assert_eq!(body["hasMore"], false);
        assert!(body.get("nextCursor").is_none(), "the last page has no cursor");
    }
    ids
}
