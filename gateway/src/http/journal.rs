//! One line of the log for each request that is answered, with the account that asked and the address that it came from.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::extract::{ConnectInfo, MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::Lifetime;
use crate::failure::Code;

/// Marks an answer that has its line already.
#[derive(Clone, Copy)]
pub(super) struct Noted;

/// Who calls an operation.
pub(super) struct Caller {
    pub(super) client: IpAddr,
    /// What was sent as a user name: anything, until it is known to be one.
    pub(super) named: Option<String>,
    /// The account, once its key was accepted.
    pub(super) account: Option<String>,
}

/// The line of an operation. It is written though the caller has hung up: what was begun is ended.
///
/// A name is logged once it is known to be an account's: anything else may be what should not be in a log. Code 09 says that the
/// account is there and the key is not its own, so the name is then a claim.
pub(super) fn operation(script: &str, code: &str, caller: &Caller, lifetime: Lifetime) {
    let claimed = caller.account.is_none() && code == Code::ApiKey.code();
    tracing::info!(
        script,
        code,
        seconds = lifetime.elapsed().as_secs_f64(),
        client = %caller.client.to_canonical(),
        account = caller.account,
        claimed_account = caller.named.as_deref().filter(|_| claimed),
        "answered"
    );
}

/// The lines of all other requests: pages, scripts, what browsers ask for, and what is refused before its caller is known.
pub(super) async fn others(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let client = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip().to_canonical());
    // The template and not the path: the name of a challenge lets whoever has it decide.
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    if response.extensions().get::<Noted>().is_none() {
        tracing::info!(
            route,
            status = response.status().as_u16(),
            seconds = began.elapsed().as_secs_f64(),
            client = client.map(tracing::field::display),
            "answered"
        );
    }
    response
}
