//! The one shape of every answer and every error (docs/api.md, Errors). The only place where an error meets an HTTP status.

use std::borrow::Cow;

use axum::Json;
use axum::http::header::{CACHE_CONTROL, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use common::accounts::AuthError;
use common::db;
use common::error::Error;
use common::id::RequestId;
use common::{public_url, schema};
use serde::Serialize;
use utoipa::ToSchema;

use crate::again::BrokenOff;
use crate::envelope::{self, ErrorCode};
use crate::limits::Verdict;

/// An answer, or a refusal.
pub(crate) type Answer<T = Response> = Result<T, Refusal>;

/// 200 with an object.
pub(crate) fn ok(body: impl Serialize) -> Response {
    Json(body).into_response()
}

/// 201 with the object made.
pub(crate) fn created(body: impl Serialize) -> Response {
    (StatusCode::CREATED, Json(body)).into_response()
}

/// 202 with what was accepted and is not done yet.
pub(crate) fn accepted(body: impl Serialize) -> Response {
    (StatusCode::ACCEPTED, Json(body)).into_response()
}

/// An error as the client sees it.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: Cow<'static, str>,
    param: Option<Cow<'static, str>>,
    capability: Option<&'static str>,
    limit: Option<Verdict>,
    broken_off: bool,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into(), param: None, capability: None, limit: None, broken_off: false }
    }

    /// 401: the key, the origin or the signature is not accepted.
    pub(crate) fn unauthenticated(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "authentication_failed", message)
    }

    /// 401: a checkout session asked for by no page.
    pub(crate) fn no_origin() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "no_origin_header", "an Origin header is required")
    }

    /// 403: a valid key, and the wrong kind for this route.
    pub(crate) fn wrong_kind(message: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_denied", message)
    }

    /// 429: too many requests; when to come again stands in the headers.
    pub(crate) fn too_many(limit: Verdict) -> Self {
        let message = "too many requests; see Retry-After";
        Self { limit: Some(limit), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message) }
    }

    /// 404: no such path.
    pub(crate) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "no such path")
    }

    /// 405: not with this method. The router adds `Allow`.
    pub(crate) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request", "this path does not take this method")
    }

    /// 400: a head that two readers could understand differently.
    pub(crate) fn ambiguous_head(param: &'static str) -> Self {
        let refusal = Self::new(StatusCode::BAD_REQUEST, "invalid_request", format!("{param} must be sent once"));
        Self { param: Some(param.into()), ..refusal }
    }

    /// 408: the body did not come in time.
    pub(crate) fn too_slow(limit: std::time::Duration) -> Self {
        let message = format!("the body did not arrive within {} seconds", limit.as_secs());
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request", message)
    }

    /// 413: the body is over the limit.
    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request", message)
    }

    /// The field at fault, if one is.
    #[cfg(test)]
    pub(crate) fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// What is told.
    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Its status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Says in the headers when to come again, to who came too often.
    pub(crate) fn tell_limit(&self, headers: &mut HeaderMap) {
        if let Some(limit) = self.limit {
            limit.write(headers);
        }
    }

    /// 503: the clock of this machine is wrong. Another process, or this one later, takes the request.
    pub(crate) fn wrong_clock() -> Self {
        let message = "this server's clock is wrong, so it starts nothing; nothing was done, and trying again is safe";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "api_error", message)
    }

    /// Marks the answer to a request whose handler may run again.
    pub(crate) fn mark(&self, response: &mut Response) {
        if self.broken_off {
            response.extensions_mut().insert(BrokenOff);
        }
    }

    /// 500: our fault, and safe to try again.
    pub(crate) fn fault() -> Self {
        let message = "something went wrong on our side; nothing was done, and trying again is safe";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "api_error", message)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid { param, message } => {
                let mut refusal = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message);
                refusal.param = Some(param).filter(|param| !param.is_empty());
                refusal
            }
            Error::NotFound(_) => Self::new(StatusCode::NOT_FOUND, "not_found", error.to_string()),
            Error::Conflict(message) => Self::new(StatusCode::CONFLICT, "conflict", message),
            Error::NotEntitled(capability) | Error::NotConnected(capability) => {
                let mut refusal = Self::new(StatusCode::FORBIDDEN, "capability_not_enabled", error.to_string());
                refusal.capability = Some(capability);
                refusal
            }
            Error::NotSupported(capability) => {
                let message = "the provider of this account cannot do this";
                let mut refusal = Self::new(StatusCode::NOT_IMPLEMENTED, "capability_not_supported", message);
                refusal.capability = Some(capability);
                refusal
            }
            Error::Database(cause) if db::is_conflict(&cause) => {
                tracing::warn!(error = %cause, "Postgres has ended the transaction for the sake of another");
                Self { broken_off: true, ..Self::fault() }
            }
            Error::Database(_) | Error::Internal(_) => {
                tracing::error!(%error, "the request failed; the client is told to try again");
                Self::fault()
            }
        }
    }
}

impl From<AuthError> for Refusal {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Refused => Self::unauthenticated("the API key is not valid"),
            AuthError::Database(cause) => Error::Database(cause).into(),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ErrorBody<'a> {
    error: ErrorView<'a>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ErrorDetail)]
struct ErrorView<'a> {
    /// What went wrong, for programs.
    code: &'a str,
    /// The same for people; it may change. Of what was sent it repeats names and ids, never a value.
    message: &'a str,
    /// The field at fault: a path such as `customFields[2]`, a query parameter, or a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<&'a str>,
    /// The operation that is not enabled or not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    capability: Option<&'a str>,
    /// As in `Request-Id`: name it when you ask us about the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = true, schema_with = request_id)]
    request_id: Option<RequestId>,
    /// Where the code is explained.
    #[schema(schema_with = doc_url)]
    doc_url: String,
}

fn request_id() -> schema::Field {
    schema::id(RequestId::PREFIX).into()
}

fn doc_url() -> schema::Field {
    schema::text("^https?://.+/docs#error-[a-z_]+$", "https://pay.example/docs#error-invalid_request").into()
}

/// Where the page of the document explains a code.
pub(crate) fn anchor(code: &str) -> String {
    format!("error-{code}")
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = ErrorView {
            code: self.code,
            message: &self.message,
            param: self.param.as_deref(),
            capability: self.capability,
            request_id: envelope::present_request(),
            doc_url: public_url::of(format_args!("/docs#{}", anchor(self.code))),
        };
        let headers = [(CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
        let mut response = (self.status, headers, Json(ErrorBody { error })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(ErrorCode(self.code));
        self.tell_limit(response.headers_mut());
        self.mark(&mut response);
        response
    }
}
