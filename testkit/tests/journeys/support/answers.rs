//! What an answer must be, told where it is asked.

use serde_json::Value;
use testkit::Answer;

/// 200, and its body.
#[track_caller]
pub(crate) fn ok(answer: &Answer) -> &Value {
    expect(answer, 200)
}

/// 201, and its body.
#[track_caller]
pub(crate) fn created(answer: &Answer) -> &Value {
    expect(answer, 201)
}

/// 202, and its body.
#[track_caller]
pub(crate) fn accepted(answer: &Answer) -> &Value {
    expect(answer, 202)
}

#[track_caller]
fn expect(answer: &Answer, status: u16) -> &Value {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert!(answer.header("request-id").is_some(), "every answer names its request");
    &answer.body
}

/// A refusal in the one error shape, and what is in it.
#[track_caller]
pub(crate) fn refused<'a>(answer: &'a Answer, status: u16, code: &str) -> &'a Value {
    let error = &expect(answer, status)["error"];
    assert_eq!(error["code"], code, "{}", answer.body);
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(error["requestId"].as_str(), answer.header("request-id"), "{}", answer.body);
    let documented = error["docUrl"].as_str().is_some_and(|url| url.ends_with(&format!("/docs#error-{code}")));
    assert!(documented, "{}", answer.body);
    assert_eq!(answer.header("www-authenticate"), (status == 401).then_some("Bearer"));
    assert_eq!(
        (answer.header("cache-control"), answer.header("x-content-type-options")),
        (Some("no-store"), Some("nosniff"))
    );
    error
}

/// 422 naming this field.
#[track_caller]
pub(crate) fn invalid(answer: &Answer, param: &str) {
    let error = refused(answer, 422, "invalid_request");
    assert_eq!(error["param"], param, "{}", answer.body);
}

/// All that an error says, but for the id that was asked for and the one of the request.
pub(crate) fn said_of(answer: &Answer, id: &str) -> String {
    let request = answer.header("request-id").unwrap_or("none");
    String::from_utf8_lossy(&answer.bytes).replace(id, "{id}").replace(request, "{request}")
}

/// 404.
#[track_caller]
pub(crate) fn not_found(answer: &Answer) {
    refused(answer, 404, "not_found");
}

/// 409.
#[track_caller]
pub(crate) fn conflict(answer: &Answer) {
    refused(answer, 409, "conflict");
}

/// The ids on a page, in its order.
#[track_caller]
pub(crate) fn ids(page: &Answer) -> Vec<String> {
    let body = ok(page);
    assert_eq!(body["object"], "list");
    let rows = body["data"].as_array().expect("a list has data");
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().expect("a row has an id").to_owned()).collect();
    if body["hasMore"] == true {
        assert_eq!(body["nextCursor"].as_str(), ids.last().map(String::as_str), "the cursor is the last row");
    } else {
        assert_eq!(body["hasMore"], false);
        assert!(body.get("nextCursor").is_none(), "a cursor only where more follows");
    }
    ids
}
