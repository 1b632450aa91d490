//! Response envelopes: `{"response": {…}}`, with HTTP 200 for every result of an operation.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::amount::Amount;
use crate::failure::{Code, Failure};
use crate::id::TransactionId;

/// The default description of a success.
pub(super) const SUCCESS: &str = "Transaction entry successful";

/// The serialized body of a success.
#[derive(Debug)]
pub(super) struct Reply(String);

#[derive(Serialize)]
struct Envelope<'a, T> {
    response: &'a T,
}

impl Reply {
    /// `fields` includes `code` and `description`.
    pub(super) fn new<T: Serialize>(fields: &T) -> Self {
        Self(serde_json::to_string(&Envelope { response: fields }).expect("response fields serialize to JSON"))
    }

    pub(super) fn into_response(self) -> Response {
        json_response(StatusCode::OK, self.0)
    }
}

/// An error has only a code and a description.
pub(super) fn error(status: StatusCode, code: Code, description: &str) -> Response {
    let fields = serde_json::json!({"code": code.code(), "description": description});
    json_response(status, Reply::new(&fields).0)
}

/// HTTP 200, or 429 if a rate limit was exceeded.
pub(super) fn failure(failure: Failure, fallback: Code) -> Response {
    let seconds = match failure {
        Failure::TooMany { seconds } => Some(seconds),
        Failure::Refused(..) | Failure::NotEntered(_) | Failure::Unknown => None,
    };
    let (code, description) = failure.describe(fallback);
    let Some(seconds) = seconds else { return error(StatusCode::OK, code, &description) };
    let mut response = error(StatusCode::TOO_MANY_REQUESTS, code, &description);
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response
}

fn json_response(status: StatusCode, json: String) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, json).into_response()
}

/// The result of a transaction.
#[derive(Serialize)]
pub(super) struct TransactionReply {
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

impl TransactionReply {
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
