//! Runs a handler again after Postgres aborted its transaction: a deadlock, a serialization failure or a lock timeout.
//! Nothing was committed then, and the next run usually succeeds.
//!
//! The layer is inside the guard, so the key, the limits and the nonce of a signed request are checked once. A handler
//! that has committed anything is never run again, and none runs again before the aborted transaction has ended.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Extensions;
use axum::middleware::Next;
use axum::response::Response;
use foundation::crypto::random_u32;
use foundation::db::watch_transactions;

use crate::error::{ApiError, TransactionAborted};

const MAX_RUNS: u32 = 5;
/// No run starts later than this. A lock wait takes up to 10 s, and clients wait 40 s (docs/api.md, Time limits of a client).
const RETRY_WINDOW: Duration = Duration::from_secs(12);
/// The upper bound of the random pause before the second run; it doubles with each run, so that the transactions that
/// deadlocked do not collide again.
const FIRST_PAUSE_MS: u32 = 20;

/// The body of a request, buffered because it can be read from the connection only once.
#[derive(Clone, Default)]
struct BufferedBody(Arc<OnceLock<Bytes>>);

/// Runs the handler, and runs it again if Postgres aborts its transaction.
pub(crate) async fn run(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(BufferedBody::default());
    let (mut body, mut runs) = (Some(body), 0);
    loop {
        runs += 1;
        // `read_body` buffers the body before the handler queries the database.
        let request = Request::from_parts(parts.clone(), body.take().unwrap_or_else(Body::empty));
        let (response, transactions) = watch_transactions(next.clone().run(request)).await;
        if response.extensions().get::<TransactionAborted>().is_none() {
            return response;
        }
        let committed = transactions.committed();
        if committed || runs == MAX_RUNS || began.elapsed() >= RETRY_WINDOW {
            tracing::error!(
                runs,
                committed,
                "Postgres aborted the transaction; not running the handler again, the client may retry"
            );
            aborted_requests("failed").increment(1);
            return response;
        }
        tracing::warn!(runs, "Postgres aborted the transaction; running the handler again");
        aborted_requests("retried").increment(1);
        transactions.ended().await;
        let longest = FIRST_PAUSE_MS << (runs - 1);
        tokio::time::sleep(Duration::from_millis((random_u32() % longest).into())).await;
    }
}

/// The body of a request whose handler may run again. `reading` reads it, the first time only.
///
/// # Errors
/// The errors of `reading`.
pub(crate) async fn read_body(
    extensions: &Extensions,
    reading: impl Future<Output = Result<Bytes, ApiError>>,
) -> Result<Bytes, ApiError> {
    let buffer = extensions.get::<BufferedBody>().cloned();
    if let Some(bytes) = buffer.as_ref().and_then(|buffer| buffer.0.get()) {
        return Ok(bytes.clone());
    }
    let bytes = reading.await?;
    // The cell is still empty: the body was read for the first time.
    let _ = buffer.map(|buffer| buffer.0.set(bytes.clone()));
    Ok(bytes)
}

/// The counter of requests whose transaction was aborted, by what the API did next.
pub(crate) fn aborted_requests(outcome: &'static str) -> metrics::Counter {
    metrics::counter!("http_requests_aborted_total", "outcome" => outcome)
}
