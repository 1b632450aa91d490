//! The outermost layers of every request: its id, its log line and its metrics, which the portal's pages have as well; then
//! what concerns the API only, and the panic handler.

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::requests::Entry;
use foundation::clock::ClockError;
use foundation::header;
use foundation::id::{AccountId, KeyId, RequestId};
use tracing::Instrument;

use crate::app::App;
use crate::error::{ApiError, ErrorCode};
use crate::recorder::Recorder;
use crate::request_id;
use crate::trusted::Trusted;

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const API_VERSION: HeaderName = HeaderName::from_static("api-version");

/// The client's IP address.
pub(crate) fn client_address(request: &Request) -> IpAddr {
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// The caller's identity, as far as it is known when the request is logged. Never the key itself.
#[derive(Clone, Default)]
pub(crate) struct RequestContext(Arc<OnceLock<Identity>>);

enum Identity {
    Authenticated(AccountId, KeyId),
    /// A key with this public id was sent and rejected.
    Claimed(KeyId),
}

impl RequestContext {
    pub(crate) fn of(request: &Request) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    pub(crate) fn set_authenticated(&self, account: AccountId, key: KeyId) {
        let _ = self.0.set(Identity::Authenticated(account, key));
    }

    pub(crate) fn set_claimed(&self, key: KeyId) {
        let _ = self.0.set(Identity::Claimed(key));
    }

    /// The account, the key, and the rejected key.
    fn log_fields(&self) -> (Option<AccountId>, Option<KeyId>, Option<KeyId>) {
        match self.0.get() {
            Some(Identity::Authenticated(account, key)) => (Some(*account), Some(*key), None),
            Some(Identity::Claimed(key)) => (None, None, Some(*key)),
            None => (None, None, None),
        }
    }
}

/// Assigns the request id, then logs and counts the request when it ends. What a page of the portal needs has the id of the
/// page's request.
pub(crate) async fn wrap(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = request_id::current().unwrap_or_else(|| RequestId::new(app.clock.now()));
    let context = RequestContext::default();
    request.extensions_mut().insert(context.clone());
    let client = client_address(&request).to_canonical();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let method = method_label(request.method());
    let span = tracing::info_span!("request", request_id = %id);
    let is_of_api = request.uri().path().starts_with("/v1");
    let path = shown_path(request.uri().path(), &route);
    // What a page of the portal needs is no request of the merchant's programs.
    let recorder = (is_of_api && request.extensions().get::<Trusted>().is_none()).then(|| Arc::clone(&app.requests));
    let responding = async {
        let mut log = RequestLog {
            id,
            method,
            route,
            path,
            began: Instant::now(),
            status: CLIENT_CLOSED,
            code: None,
            client,
            context,
            recorder,
        };
        let mut response = next.run(request).await;
        log.status = response.status().as_u16();
        log.code = response.extensions().get::<ErrorCode>().map(|code| code.0);
        if let Ok(value) = HeaderValue::try_from(id.to_string()) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        response
    };
    request_id::CURRENT.scope(id, responding.instrument(span)).await
}

/// Checks what every request to the API must meet, and sets the headers of its responses.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_of_v1 = request.uri().path().starts_with("/v1");
    let mut response = match check_preconditions(&app, request.method(), request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(API_VERSION, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    if is_of_v1 {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}

/// The path as merchants see it in the log: what stands in the place of an id is shown only if it has the form of one.
fn shown_path(path: &str, route: &str) -> String {
    let shown = |(part, name): (&str, &str)| {
        let is_id = part.split_once('_').is_some_and(|(_, rest)| rest.len() == 26) && part.is_ascii();
        if name.starts_with('{') && !is_id { name.to_owned() } else { part.to_owned() }
    };
    match path.split('/').count() == route.split('/').count() {
        true => path.split('/').zip(route.split('/')).map(shown).collect::<Vec<_>>().join("/"),
        false => route.to_owned(),
    }
}

/// Rejects a request with two `Host` headers, because a proxy may have routed it by the other one, and rejects writes
/// while this machine's clock is wrong: other processes can take them.
async fn check_preconditions(app: &App, method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    if header::single(headers, "Host").is_err() {
        return Err(ApiError::duplicate_header("Host"));
    }
    if method.is_safe() {
        return Ok(());
    }
    app.clock.verify(&app.db).await.map_err(|error| {
        tracing::error!(%error, "the clock check failed; the request was rejected");
        match error {
            ClockError::Wrong { .. } => ApiError::wrong_clock(),
            // The database is unavailable, so the request could not succeed.
            ClockError::NotMeasured => ApiError::internal(),
        }
    })
}

/// Logged for a request whose client disconnected before the response; never sent.
const CLIENT_CLOSED: u16 = 499;

/// Logs and counts a request when dropped, which also happens when the connection closes early.
struct RequestLog {
    id: RequestId,
    method: &'static str,
    route: String,
    path: String,
    began: Instant,
    status: u16,
    code: Option<&'static str>,
    client: IpAddr,
    context: RequestContext,
    /// Records the request in the log that merchants see.
    recorder: Option<Arc<Recorder>>,
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        let (Self { method, route, status, context, .. }, took) = (&*self, self.began.elapsed());
        let (account, key, claimed_key) = context.log_fields();
        tracing::info!(
            method,
            route,
            status,
            code = self.code,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            client = %self.client,
            account = account.map(display),
            key = key.map(display),
            claimed_key = claimed_key.map(display),
            "request completed"
        );
        if let (Some(recorder), Some(account), Some(key)) = (&self.recorder, account, key) {
            recorder.record(Entry {
                id: self.id,
                account,
                key,
                method: (*method).to_owned(),
                path: self.path.clone(),
                status: i16::try_from(*status).unwrap_or(i16::MAX),
                code: self.code.map(str::to_owned),
                duration_ms: i32::try_from(took.as_millis()).unwrap_or(i32::MAX),
            });
        }
        requests(method, route, &status.to_string()).increment(1);
        let labels = [("method", (*method).to_owned()), ("route", route.clone())];
        metrics::histogram!("http_request_duration_seconds", &labels).record(took.as_secs_f64());
    }
}

/// The method as a metric label and log field. A client can send any token, and each would create a metric series.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        "CONNECT" => "CONNECT",
        "TRACE" => "TRACE",
        _ => "other",
    }
}

/// The counter of requests with this status.
pub(crate) fn requests(method: &str, route: &str, status: &str) -> metrics::Counter {
    let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_owned())];
    metrics::counter!("http_requests_total", &labels)
}

/// Turns a panic into a 500 with the usual error body, and logs its message.
#[expect(clippy::needless_pass_by_value, reason = "the signature that the layer calls")]
pub(crate) fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let what =
        cause.downcast_ref::<&str>().map(ToString::to_string).or_else(|| cause.downcast_ref::<String>().cloned());
    tracing::error!(what, "a handler panicked; the client gets 500 and may retry");
    ApiError::internal().into_response()
}
