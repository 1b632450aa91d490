//! What browsers call without an account's keys: proxy numbers, tokens of capture fields and of the sandbox wallet, and
//! challenge pages. Requests are limited by client address.

use std::net::SocketAddr;

use axum::extract::rejection::PathRejection;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::response::Response;

use super::{Form, Reply, body, envelope};
use crate::app::{App, Deadline};
use crate::failure::{Code, Failure, Result};
use crate::{accounts, proxy, threeds, tokens, wallet};

/// `POST /services/proxynization`: exchanges a card number for a proxy number. With an `app_key` it belongs to that
/// account.
pub(super) async fn proxynization(state: State<App>, from: ConnectInfo<SocketAddr>, request: Request) -> Response {
    serve(state, from, request, async |app, form| {
        let number = form.get("creditcard_number").and_then(crate::cards::CardNumber::parse);
        let number = number.ok_or(Code::Card.refuse())?;
        let account = match form.get("app_key") {
            Some(app_key) => Some(accounts::by_app_key(&app.db, Some(app_key)).await?.id),
            None => None,
        };
        let proxy = proxy::create(&app.db, &app.crypto, &number, account, app.clock.now()).await?;
        Ok(Reply::new(&serde_json::json!({"code": "A01", "description": "Success", "proxy_number": proxy})))
    })
    .await
}

/// `POST /services/field_token`: exchanges a card for a single-use token.
pub(super) async fn field_token(state: State<App>, from: ConnectInfo<SocketAddr>, request: Request) -> Response {
    serve(state, from, request, async |app, form| tokens::create(app, form).await).await
}

/// `POST /services/wallet_token`: the signed token of the sandbox wallet.
pub(super) async fn wallet_token(state: State<App>, from: ConnectInfo<SocketAddr>, request: Request) -> Response {
    serve(state, from, request, async |app, form| wallet::sign(app, form).await).await
}

/// `GET /services/3ds/{token}`
pub(super) async fn challenge(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    path: Result<Path<String>, PathRejection>,
) -> Response {
    page(&app, from, path, async |token| threeds::show(&app, &token).await).await
}

/// `POST /services/3ds/{token}`. It is completed even if the browser disconnects.
pub(super) async fn decision(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    page(&app, from, path, async |token| decide(app.clone(), token, request).await).await
}

async fn decide(app: App, token: String, request: Request) -> Response {
    let form = match body::form(request, Deadline::start()).await {
        Ok(form) => form,
        Err(refused) => return refused.into_response(),
    };
    let task = {
        let app = app.clone();
        async move { threeds::decide(&app, &token, &form).await }
    };
    app.work.spawn(task).await.unwrap_or_else(|_| threeds::unavailable())
}

/// Serves a challenge's page, unless the client exceeds its rate limit.
async fn page(
    app: &App,
    from: SocketAddr,
    path: Result<Path<String>, PathRejection>,
    handler: impl AsyncFnOnce(String) -> Response,
) -> Response {
    if app.rate_limits.check_browser(from.ip()).await.is_err() {
        return threeds::too_many();
    }
    match path {
        Ok(Path(token)) => handler(token).await,
        Err(_) => threeds::not_found(),
    }
}

async fn serve(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    handler: impl AsyncFnOnce(&App, &Form) -> Result<Reply>,
) -> Response {
    if let Err(too_many) = app.rate_limits.check_browser(from.ip()).await {
        return refused(too_many);
    }
    let form = match body::form(request, Deadline::start()).await {
        Ok(form) => form,
        Err(refused) => return refused.into_response(),
    };
    match handler(&app, &form).await {
        Ok(reply) => reply.into_response(),
        Err(failure) => refused(failure),
    }
}

fn refused(failure: Failure) -> Response {
    envelope::failure(failure, Code::EntryFailed)
}
