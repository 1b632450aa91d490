//! Responses and the one error body of the API (docs/api.md, Errors). Only this module maps errors to HTTP statuses.

use std::borrow::Cow;

use axum::Json;
use axum::http::header::{CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::accounts::AuthError;
use foundation::db;
use foundation::error::Error;
use foundation::id::RequestId;
use foundation::public_url;
use foundation::schema;
use serde::Serialize;
use utoipa::ToSchema;

use crate::limits::RateLimitDecision;
use crate::request_id;

pub(crate) type ApiResult<T = Response> = Result<T, ApiError>;

/// 200 with an object.
pub(crate) fn ok(body: impl Serialize) -> Response {
    Json(body).into_response()
}

/// 201 with the created object.
pub(crate) fn created(body: impl Serialize) -> Response {
    (StatusCode::CREATED, Json(body)).into_response()
}

/// 202 with an object that is still being processed.
pub(crate) fn accepted(body: impl Serialize) -> Response {
    (StatusCode::ACCEPTED, Json(body)).into_response()
}

/// The code of an error response, passed to the log as a response extension.
#[derive(Clone, Copy)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// Marks the response to a request whose transaction Postgres aborted, so that its handler may run again.
#[derive(Clone, Copy)]
pub(crate) struct TransactionAborted;

/// An error as the client sees it.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: Cow<'static, str>,
    param: Option<Cow<'static, str>>,
    capability: Option<&'static str>,
    limit: Option<RateLimitDecision>,
    /// Postgres aborted the transaction, so the handler may run again.
    transaction_aborted: bool,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            param: None,
            capability: None,
            limit: None,
            transaction_aborted: false,
        }
    }

    /// 401: the key, the origin or the signature was rejected.
    pub(crate) fn unauthenticated(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "authentication_failed", message)
    }

    /// 401: a checkout session requested without an `Origin`, so not by a web page.
    pub(crate) fn no_origin() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "no_origin_header", "an Origin header is required")
    }

    /// 403: a valid key of the wrong kind or mode for this route.
    pub(crate) fn forbidden(message: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_denied", message)
    }

    /// 429. The headers state when to retry.
    pub(crate) fn rate_limited(limit: RateLimitDecision) -> Self {
        let message = "too many requests; see Retry-After";
        Self { limit: Some(limit), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message) }
    }

    /// 404: no such path.
    pub(crate) fn no_route(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 405. The router adds `Allow`.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request", "this path does not support this method")
    }

    /// 400: a header sent twice, of which a proxy and this process might use different values.
    pub(crate) fn duplicate_header(param: &'static str) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, "invalid_request", format!("{param} must be sent once"));
        Self { param: Some(param.into()), ..error }
    }

    /// 408: the body did not arrive in time.
    pub(crate) fn body_timeout(limit: std::time::Duration) -> Self {
        let message = format!("the body did not arrive within {} seconds", limit.as_secs());
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request", message)
    }

    /// 413: the body exceeds the limit, in bytes.
    pub(crate) fn body_too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request", message)
    }

    #[cfg(test)]
    pub(crate) fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Adds the headers that say when to retry.
    pub(crate) fn write_retry(&self, headers: &mut HeaderMap) {
        if let Some(limit) = self.limit {
            limit.write(headers);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
    }

    /// 503: this machine's clock is wrong. Another process can take the request, or this one later.
    pub(crate) fn wrong_clock() -> Self {
        let message = "this server's clock is wrong, so it rejects writes; nothing was done, and it is safe to retry";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "api_error", message)
    }

    /// Marks the response if the handler may run again.
    pub(crate) fn mark_aborted(&self, response: &mut Response) {
        if self.transaction_aborted {
            response.extensions_mut().insert(TransactionAborted);
        }
    }

    /// 500. Nothing was done, so the client may retry.
    pub(crate) fn internal() -> Self {
        let message = "something went wrong on our side; nothing was done, and it is safe to retry";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "api_error", message)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid { param, message } => {
                let mut invalid = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message);
                invalid.param = Some(param).filter(|param| !param.is_empty());
                invalid
            }
            Error::NotFound(_) => Self::new(StatusCode::NOT_FOUND, "not_found", error.to_string()),
            Error::Conflict(message) => Self::new(StatusCode::CONFLICT, "conflict", message),
            Error::NotEntitled(capability) | Error::NotConnected(capability) => {
                let mut forbidden = Self::new(StatusCode::FORBIDDEN, "capability_not_enabled", error.to_string());
                forbidden.capability = Some(capability);
                forbidden
            }
            Error::NotSupported(capability) => {
                let message = "the provider of this account does not support this operation";
                let mut unsupported = Self::new(StatusCode::NOT_IMPLEMENTED, "capability_not_supported", message);
                unsupported.capability = Some(capability);
                unsupported
            }
            Error::Busy(message) => {
                tracing::warn!(message, "the request was not tried; the client gets 503 and may retry");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "api_error", message)
            }
            Error::Database(cause) if db::is_conflict(&cause) => {
                tracing::warn!(error = %cause, "Postgres aborted the transaction because of a conflict");
                Self { transaction_aborted: true, ..Self::internal() }
            }
            Error::Database(_) | Error::Internal(_) => {
                tracing::error!(%error, "the request failed; the client gets 500 and may retry");
                Self::internal()
            }
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Refused => Self::unauthenticated("the API key is not valid"),
            AuthError::Database(cause) => Error::Database(cause).into(),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = ErrorResponse)]
pub(crate) struct ErrorBody<'a> {
    /// What went wrong.
    error: ErrorView<'a>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ErrorDetail)]
struct ErrorView<'a> {
    /// A stable code for programs.
    code: &'a str,
    /// An explanation for developers, which may change. It repeats names and ids from the request, never other values.
    message: &'a str,
    /// The invalid field: a path such as `customFields[2]`, a query parameter, or a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<&'a str>,
    /// The operation that is not enabled or not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    capability: Option<&'a str>,
    /// The same as `Request-Id`. Include it when you contact support.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = true, value_type = RequestIdText)]
    request_id: Option<RequestId>,
    /// Where the code is explained.
    #[schema(value_type = DocUrl)]
    doc_url: String,
}

schema::field_types! {
    RequestIdText = schema::id(RequestId::PREFIX);
    DocUrl = schema::text("^https?://.+/docs#error-[a-z_]+$", "https://pay.example/docs#error-invalid_request");
}

/// The anchor of a code on the /docs page.
pub(crate) fn anchor(code: &str) -> String {
    format!("error-{code}")
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = ErrorView {
            code: self.code,
            message: &self.message,
            param: self.param.as_deref(),
            capability: self.capability,
            request_id: request_id::current(),
            doc_url: public_url::of(format_args!("/docs#{}", anchor(self.code))),
        };
        let headers = [(CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
        let mut response = (self.status, headers, Json(ErrorBody { error })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(ErrorCode(self.code));
        self.write_retry(response.headers_mut());
        self.mark_aborted(&mut response);
        response
    }
}
