//! Answers: `{"response": {…}}`, with HTTP 200 for whatever the operation itself says.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::amount::Amount;
use crate::failure::{Code, Failure};
use crate::id::TransactionId;

/// The description of every success that has no other.
pub const SUCCESS: &str = "Transaction entry successful";

/// The JSON of a success, ready to be sent.
#[derive(Debug)]
pub struct Reply(String);

#[derive(Serialize)]
struct Envelope<'a, T> {
    response: &'a T,
}

impl Reply {
    /// Of the fields of an operation, `code` and `description` among them.
    pub fn new<T: Serialize>(fields: &T) -> Self {
        Self(serde_json::to_string(&Envelope { response: fields }).expect("fields of ours are JSON"))
    }

    /// As HTTP.
    pub fn into_response(self) -> Response {
        send(StatusCode::OK, self.0)
    }
}

/// An error: code and description, and nothing else.
pub fn error(status: StatusCode, code: Code, description: &str) -> Response {
    let fields = serde_json::json!({"code": code.code(), "description": description});
    send(status, Reply::new(&fields).0)
}

/// A failure, which is HTTP 200 unless the request was not looked at.
pub fn failure(failure: Failure, fallback: Code) -> Response {
    let seconds = match failure {
        Failure::TooMany { seconds } => Some(seconds),
        Failure::Refused(..) | Failure::NotEntered(_) | Failure::Unknown => None,
    };
    let (code, description) = failure.told(fallback);
    let Some(seconds) = seconds else { return error(StatusCode::OK, code, &description) };
    let mut response = error(StatusCode::TOO_MANY_REQUESTS, code, &description);
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response
}

fn send(status: StatusCode, json: String) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, json).into_response()
}

/// The end of every transaction but a challenged one.
#[derive(Serialize)]
pub(super) struct Done {
    pub(super) code: &'static str,
    pub(super) description: &'static str,
    pub(super) transaction_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total_amount: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) convenience_fee: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) amount: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) redirect_url: Option<String>,
}

impl Done {
    pub(super) fn new(id: TransactionId) -> Self {
        Self {
            code: "00",
            description: SUCCESS,
            transaction_id: id.to_string(),
            total_amount: None,
            convenience_fee: None,
            amount: None,
            redirect_url: None,
        }
    }
}
