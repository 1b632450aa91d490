//! Running a handler again after Postgres has ended its transaction for the sake of another: a deadlock, a serialization failure, or
//! a lock that was not granted in time. Nothing was committed then, and run again it mostly succeeds.
//!
//! This stands inside the guard: the key, the limits and the nonce of a signed request are asked for once. A handler that has
//! committed something is not run again, whatever comes after it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Extensions;
use axum::middleware::Next;
use axum::response::Response;
use common::crypto::random_u32;
use common::db::watch_commits;

use crate::answer::Refusal;
use crate::body;

/// How often a handler runs at most.
const RUNS: u32 = 5;
/// A lock is waited for up to 10 s, and clients wait half a minute: after so long no other run begins.
const NO_RUN_AFTER: Duration = Duration::from_secs(12);
/// The longest pause before the second run; before each further one it is twice as long. Those that have met must not meet again.
const PAUSE_MS: u32 = 20;

/// Marks an answer to a request that Postgres has broken off.
#[derive(Clone, Copy)]
pub(crate) struct BrokenOff;

/// The body of a request, once it has been read: it arrives once.
#[derive(Clone, Default)]
struct Kept(Arc<OnceLock<Bytes>>);

/// Runs the handler, again if need be.
pub(crate) async fn run(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(Kept::default());
    let (mut body, mut runs) = (Some(body), 0);
    loop {
        runs += 1;
        // A body is read by `body_of`, before its handler asks for anything.
        let request = Request::from_parts(parts.clone(), body.take().unwrap_or_else(Body::empty));
        let (response, committed) = watch_commits(next.clone().run(request)).await;
        if response.extensions().get::<BrokenOff>().is_none() {
            return response;
        }
        if committed || runs == RUNS || began.elapsed() >= NO_RUN_AFTER {
            tracing::error!(runs, committed, "Postgres has broken the request off; the client is told to try again");
            counted("given_up").increment(1);
            return response;
        }
        tracing::warn!(runs, "Postgres has broken the request off; its handler runs again");
        counted("again").increment(1);
        let longest = PAUSE_MS << (runs - 1);
        tokio::time::sleep(Duration::from_millis((random_u32() % longest).into())).await;
    }
}

/// The body of a request whose handler may run again.
///
/// # Errors
/// As of [`body::read_up_to`].
pub(crate) async fn body_of(extensions: &Extensions, body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let kept = extensions.get::<Kept>().cloned();
    if let Some(bytes) = kept.as_ref().and_then(|kept| kept.0.get()) {
        return Ok(bytes.clone());
    }
    let bytes = body::read_up_to(body, limit).await?;
    // It is read for the first time, so nothing is kept yet.
    let _ = kept.map(|kept| kept.0.set(bytes.clone()));
    Ok(bytes)
}

/// The counter of requests that were broken off, by what followed.
pub(crate) fn counted(outcome: &'static str) -> metrics::Counter {
    metrics::counter!("http_requests_broken_off_total", "outcome" => outcome)
}
