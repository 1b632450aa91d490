//! What protects every page: the origin of forms, the headers that browsers obey, and limits for clients that are not known.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use foundation::body::ReadError;
use foundation::{body, header};
use futures_util::StreamExt as _;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::app::App;
use crate::failure::Failure;
use crate::picture;
use crate::texts::text;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// The longest form: 16 KiB of metadata can take three times as much in a form.
const MAX_FORM: usize = 64 * 1_024;
/// The end of the address of the only form with a file.
const UPLOAD: &str = "/settings/logo";
/// The longest form with a file: the file and what is around it.
const MAX_UPLOAD: usize = picture::MAX_FILE + 16 * 1_024;
/// Files that arrive at once: they need more memory than is planned for a connection.
static UPLOADS: Semaphore = Semaphore::const_new(8);
/// How much of a form that is too long is read all the same. Browsers show a response only after they have sent the form.
const MAX_DISCARDED: u64 = 16 << 20;
/// The time for a form to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

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

/// Refuses forms of other sites and long ones, and sets the headers.
pub(crate) async fn protect(State(app): State<App>, request: Request, next: Next) -> Response {
    let origin = header::single(request.headers(), ORIGIN.as_str()).ok().flatten();
    let is_own = origin.is_some_and(|origin| origin.as_bytes() == app.origin.as_bytes());
    let mut response = match request.method().is_safe() {
        true => next.run(request).await,
        false if !is_own => Failure::Forbidden.into_response(),
        false => {
            let (parts, form) = request.into_parts();
            let read = match parts.uri.path().ends_with(UPLOAD) {
                true => read_upload(form).await,
                false => read_form(form, MAX_FORM, "The form is too long or incomplete.").await,
            };
            match read {
                Ok(form) => next.run(Request::from_parts(parts, form.into())).await,
                Err(failure) => failure.into_response(),
            }
        }
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

async fn read_upload(form: Body) -> Result<Bytes, Failure> {
    let turn = timeout(BODY_TIMEOUT, UPLOADS.acquire()).await.map_err(|_| Failure::Unavailable)?;
    let _turn = turn.map_err(Failure::internal)?;
    read_form(form, MAX_UPLOAD, picture::TOO_LONG).await
}

/// The form, unless it is longer than the limit, which `problem` says.
async fn read_form(form: Body, limit: usize, problem: &'static str) -> Result<Bytes, Failure> {
    let length = form.size_hint().lower();
    let read = if length > limit as u64 && length <= MAX_DISCARDED {
        discard(form).await;
        Err(ReadError::TooLong)
    } else {
        body::read(form, limit, BODY_TIMEOUT).await
    };
    read.map_err(|_| Failure::Invalid(text(problem).to_owned()))
}

/// Reads a form to its end and keeps nothing of it.
async fn discard(form: Body) {
    let mut chunks = form.into_data_stream();
    let _ = timeout(BODY_TIMEOUT, async { while let Some(Ok(_)) = chunks.next().await {} }).await;
}
