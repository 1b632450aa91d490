//! What protects every page: the origin of forms, the headers that browsers obey, and limits for clients that are not known.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use foundation::header;

use crate::app::App;
use crate::failure::Failure;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Limits the requests of an address to the pages that need no session, before any of them reaches the database.
pub(crate) async fn limit(
    State(app): State<App>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    match app.may_ask(client.ip()).await {
        true => next.run(request).await,
        false => Failure::TooMany.into_response(),
    }
}

/// Refuses forms of other sites, and sets the headers.
pub(crate) async fn protect(State(app): State<App>, request: Request, next: Next) -> Response {
    let origin = header::single(request.headers(), ORIGIN.as_str()).ok().flatten();
    let is_own = origin.is_some_and(|origin| origin.as_bytes() == app.origin.as_bytes());
    let mut response = match request.method().is_safe() || is_own {
        true => next.run(request).await,
        false => Failure::Forbidden.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Browsers send no origin with a form if the policy is stricter.
        (REFERRER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
