//! What surrounds every request: its id, its log line, its metrics, and a stop to panics.

use std::any::Any;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, HOST, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use common::clock::ClockError;
use common::id::{self, AccountId, KeyId};
use tracing::Instrument;

use crate::answer::Refusal;
use crate::app::App;
use crate::pages::html::address_of;

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

tokio::task_local! {
    static PRESENT: id::RequestId;
}

/// The id of the request that is being answered, for its errors.
pub(crate) fn present_request() -> Option<id::RequestId> {
    PRESENT.try_with(|id| *id).ok()
}

/// The id of this request, in its answer and in every log line of it, here and in the worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestId(pub(crate) id::RequestId);

impl<S: Send + Sync> FromRequestParts<S> for RequestId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        // Every request passes `wrap` before it comes to a handler.
        parts.extensions.get::<Self>().copied().ok_or_else(Refusal::fault)
    }
}

/// Who asks, as far as it has become known when the request is logged. Never the key itself.
#[derive(Clone, Default)]
pub(crate) struct Asker(Arc<OnceLock<Who>>);

enum Who {
    /// The holder of this key.
    Known(AccountId, KeyId),
    /// Somebody who has sent a key with this public id that was not accepted.
    Claimed(KeyId),
}

impl Asker {
    /// The asker of this request.
    pub(crate) fn of(request: &Request) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    /// It is the holder of this key.
    pub(crate) fn is(&self, account: AccountId, key: KeyId) {
        let _ = self.0.set(Who::Known(account, key));
    }

    /// A key with this public id was sent, and was not accepted.
    pub(crate) fn claims(&self, key: KeyId) {
        let _ = self.0.set(Who::Claimed(key));
    }

    /// Account, key, and the key that is only claimed.
    fn known(&self) -> (Option<AccountId>, Option<KeyId>, Option<KeyId>) {
        match self.0.get() {
            Some(Who::Known(account, key)) => (Some(*account), Some(*key), None),
            Some(Who::Claimed(key)) => (None, None, Some(*key)),
            None => (None, None, None),
        }
    }
}

/// The code of a refusal, beside its answer, for the log.
#[derive(Clone, Copy)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// Names the request, logs it, and counts it.
pub(crate) async fn wrap(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = RequestId(id::RequestId::new(app.clock.now()));
    let asker = Asker::default();
    request.extensions_mut().insert(id);
    request.extensions_mut().insert(asker.clone());
    let client = address_of(&request).to_canonical();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let method = named(request.method());
    let span = tracing::info_span!("request", request_id = %id.0);
    let is_of_api = request.uri().path().starts_with("/v1");
    let answering = async {
        let mut end = End { method, route, began: Instant::now(), status: GIVEN_UP, code: None, client, asker };
        let mut response = match may_begin(&app, request.method(), request.headers()).await {
            Ok(()) => next.run(request).await,
            Err(refusal) => refusal.into_response(),
        };
        end.status = response.status().as_u16();
        end.code = response.extensions().get::<ErrorCode>().map(|code| code.0);
        if let Ok(value) = HeaderValue::try_from(id.0.to_string()) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        if is_of_api {
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        response
    };
    PRESENT.scope(id.0, answering.instrument(span)).await
}

/// A request names its host once: a balancer may have read the other name. And while the clock of this machine is wrong, what
/// changes anything is for other processes to do.
async fn may_begin(app: &App, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.get_all(HOST).iter().count() > 1 {
        return Err(Refusal::ambiguous_head("Host"));
    }
    if method.is_safe() {
        return Ok(());
    }
    app.clock.verify(&app.db).await.map_err(|error| {
        tracing::error!(%error, "a request was refused");
        match error {
            ClockError::Wrong { .. } => Refusal::wrong_clock(),
            // The database is away, and nothing could be done without it.
            ClockError::NotMeasured => Refusal::fault(),
        }
    })
}

/// The status of a request whose client hung up before there was an answer. Nobody is ever sent it.
const GIVEN_UP: u16 = 499;

/// Tells of a request when it ends, be it because the connection has ended, and the request with it.
struct End {
    method: &'static str,
    route: String,
    began: Instant,
    status: u16,
    /// Of a refusal.
    code: Option<&'static str>,
    client: IpAddr,
    asker: Asker,
}

impl Drop for End {
    fn drop(&mut self) {
        let (Self { method, route, status, asker, .. }, took) = (&*self, self.began.elapsed());
        let (account, key, claimed_key) = asker.known();
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
            "answered"
        );
        answered(method, route, &status.to_string()).increment(1);
        let labels = [("method", (*method).to_owned()), ("route", route.clone())];
        metrics::histogram!("http_request_duration_seconds", &labels).record(took.as_secs_f64());
    }
}

/// What a method is called in figures and logs. Any word may be sent as one, and no series is ever forgotten.
fn named(method: &Method) -> &'static str {
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

/// The counter of requests that were answered so.
pub(crate) fn answered(method: &str, route: &str, status: &str) -> metrics::Counter {
    let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_owned())];
    metrics::counter!("http_requests_total", &labels)
}

/// A panic is a bug of ours: the client gets the one error shape, the log gets where it was.
#[expect(clippy::needless_pass_by_value, reason = "the signature that the layer calls")]
pub(crate) fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let what =
        cause.downcast_ref::<&str>().map(ToString::to_string).or_else(|| cause.downcast_ref::<String>().cloned());
    tracing::error!(what, "a handler panicked; the client is told to try again");
    Refusal::fault().into_response()
}
