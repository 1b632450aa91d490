//! One log line per request, with the account and the client address.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::extract::{ConnectInfo, MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;

use crate::deadline::Deadline;
use crate::failure::Code;

/// Marks a response that is already logged.
#[derive(Clone, Copy)]
pub(super) struct Logged;

/// The caller of an operation.
pub(super) struct Caller {
    pub(super) client: IpAddr,
    /// The user name as sent; it may be any text until it is found to be an account's.
    pub(super) claimed: Option<String>,
    /// The authenticated account.
    pub(super) account: Option<String>,
}

/// Logs an operation, also when the client has disconnected.
///
/// A user name is logged only if it is an account's: any other text may be a secret sent in the wrong field. Code 09
/// means that the account exists but the key is not its key, so the name is logged as a claim.
pub(super) fn operation(script: &str, code: &str, caller: &Caller, deadline: Deadline) {
    let is_claim = caller.account.is_none() && code == Code::ApiKey.code();
    tracing::info!(
        script,
        code,
        seconds = deadline.elapsed().as_secs_f64(),
        client = %caller.client.to_canonical(),
        account = caller.account,
        claimed_account = caller.claimed.as_deref().filter(|_| is_claim),
        "request completed"
    );
}

/// Logs all other requests: pages, scripts, browser calls, and requests refused before authentication.
pub(super) async fn middleware(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let client = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip().to_canonical());
    // Log the route template, not the path: the token in a challenge's URL authorizes the decision.
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    if response.extensions().get::<Logged>().is_none() {
        tracing::info!(
            route,
            status = response.status().as_u16(),
            seconds = started.elapsed().as_secs_f64(),
            client = client.map(tracing::field::display),
            "request completed"
        );
    }
    response
}
