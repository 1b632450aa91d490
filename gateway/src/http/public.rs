//! What browsers use without an account's keys: proxy numbers, tokens of capture fields and of the sandbox's wallet. Whoever
//! comes is counted by address.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::{Form, Reply, body, envelope};
use crate::app::{App, Lifetime};
use crate::failure::{Code, Failure, Result};
use crate::{proxy, threeds, tokens, wallet};

/// Addresses remembered at most; beyond, those that have not come for a while are forgotten.
const MAX_ADDRESSES: usize = 10_000;

/// Everybody without an account, by address.
pub struct Crowd(DefaultKeyedRateLimiter<IpAddr>);

impl Crowd {
    /// So many requests a second of each address, and ten times as many at once.
    pub fn new(per_second: u32) -> Self {
        let of = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self(RateLimiter::keyed(Quota::per_second(of(per_second)).allow_burst(of(per_second.saturating_mul(10)))))
    }

    fn allows(&self, address: IpAddr) -> bool {
        if self.0.len() > MAX_ADDRESSES {
            self.0.retain_recent();
        }
        self.0.check_key(&address).is_ok()
    }
}

/// `POST /services/proxynization`: a card number in, a proxy number out.
pub(super) async fn proxynization(state: State<App>, from: ConnectInfo<SocketAddr>, request: Request) -> Response {
    serve(state, from, request, async |app, form| {
        let number = form.get("creditcard_number").and_then(crate::cards::Number::parse);
        let number = number.ok_or(Code::Card.refuse())?;
        let proxy = proxy::create(&app.db, &app.vaulting, &number, app.clock.now()).await?;
        Ok(Reply::new(&serde_json::json!({"code": "A01", "description": "Success", "proxy_number": proxy})))
    })
    .await
}

/// `POST /services/field_token`: a card in, a token out.
pub(super) async fn field_token(state: State<App>, from: ConnectInfo<SocketAddr>, request: Request) -> Response {
    serve(state, from, request, async |app, form| tokens::create(app, form).await).await
}

/// `POST /services/wallet_token`: what the sandbox's wallet signs.
pub(super) async fn wallet_token(state: State<App>, from: ConnectInfo<SocketAddr>, request: Request) -> Response {
    serve(state, from, request, async |app, form| wallet::sign(app, form).await).await
}

/// `GET /services/3ds/{token}`
pub(super) async fn challenge(State(app): State<App>, Path(token): Path<String>) -> Response {
    threeds::show(&app, &token).await
}

/// `POST /services/3ds/{token}`. It goes on though the browser leaves.
pub(super) async fn decision(State(app): State<App>, Path(token): Path<String>, request: Request) -> Response {
    let form = match body::read(request.into_body(), Lifetime::begins()).await {
        Ok(bytes) => Form::parse(&bytes),
        Err(refused) => return refused.into_response(),
    };
    let task = {
        let app = app.clone();
        async move { threeds::decide(&app, &token, &form).await }
    };
    match app.work.spawn(task).await {
        Ok(response) => response,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn serve(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request<Body>,
    what: impl AsyncFnOnce(&App, &Form) -> Result<Reply>,
) -> Response {
    if !app.crowd.allows(from.ip().to_canonical()) {
        return envelope::error(
            StatusCode::TOO_MANY_REQUESTS,
            Code::Unknown,
            "Too many requests; try again in a moment",
        );
    }
    let form = match body::read(request.into_body(), Lifetime::begins()).await {
        Ok(bytes) => Form::parse(&bytes),
        Err(refused) => return refused.into_response(),
    };
    match what(&app, &form).await {
        Ok(reply) => reply.into_response(),
        Err(failure) => refused(failure),
    }
}

fn refused(failure: Failure) -> Response {
    let (code, description) = failure.told(Code::EntryFailed);
    envelope::error(StatusCode::OK, code, &description)
}
