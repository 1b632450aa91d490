//! What browsers call without an account's keys: proxy numbers, tokens of card fields and of the sandbox wallet, and
//! challenge pages. Requests are limited by client address.

use std::net::SocketAddr;

use axum::extract::rejection::PathRejection;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::response::Response;
use foundation::time::Timestamp;
use serde::Serialize;
use serde_json::json;
use texts::Language;

use super::app::App;
use super::card::{expiry, plain_number, security_code};
use super::envelope::{Reply, SUCCESS};
use super::fields::Deferred;
use super::form::Form;
use super::{body, challenge, envelope, fields};
use crate::cards::{Cardholder, MaskedCard};
use crate::deadline::Deadline;
use crate::failure::{Code, Result};
use crate::tokens::EnteredCard;
use crate::{accounts, proxy, tokens, wallet};

/// `POST /services/proxynization`: exchanges a card number for a proxy number. With an `app_key` it belongs to that
/// account.
pub(super) async fn proxynization(state: State<App>, from: ConnectInfo<SocketAddr>, request: Request) -> Response {
    serve(state, from, request, async |app, form| {
        let number = plain_number(form)?;
        let account = match form.get("app_key") {
            Some(app_key) => Some(accounts::by_app_key(&app.db, app_key).await?.id),
            None => None,
        };
        let proxy = proxy::create(&app.db, &app.crypto, &number, account, app.clock.now()).await?;
        Ok(Reply::new(&json!({"code": "A01", "description": "Success", "proxy_number": proxy})))
    })
    .await
}

/// `POST /services/field_token`: exchanges a card for a single-use token.
pub(super) async fn field_token(state: State<App>, from: ConnectInfo<SocketAddr>, request: Request) -> Response {
    serve(state, from, request, create_field_token).await
}

#[derive(Serialize)]
struct CreatedToken {
    code: &'static str,
    description: &'static str,
    card_token: String,
    expires_at: Timestamp,
    card_type: &'static str,
    credit_card_number: String,
    card_expiry_date: String,
}

/// Refuses what a charge by the token would refuse: 01 for an unknown `app_key`, 02 to 05, and A1 for the security code
/// and the postal code.
async fn create_field_token(app: &App, form: &Form) -> Result<Reply> {
    let app_key = fields::app_key(form)?;
    let account = accounts::by_app_key(&app.db, app_key).await?;
    let now = app.clock.now();
    let number = plain_number(form)?;
    let masked_card = MaskedCard::of(&number, expiry(form, account.time_zone.date_at(now))?);
    let (first_name, last_name) = names(form)?;
    let country_code = fields::country(form)?.ok_or(Code::Country.refuse())?;
    let security_code = security_code(form, true)?;
    let holder = Cardholder {
        first_name: Some(first_name.check()?),
        last_name: Some(last_name.check()?),
        zip_code: Some(form.required("zip_code")?),
        country_code: Some(country_code),
    };
    let card = EnteredCard { number, masked_card, security_code, holder };
    let token = tokens::create(&app.db, &app.crypto.card_keys, &account, app_key, &card, now).await?;
    Ok(Reply::new(&CreatedToken {
        code: "00",
        description: SUCCESS,
        card_token: token.text,
        expires_at: token.expires_at,
        card_type: card.masked_card.brand.name(),
        credit_card_number: card.masked_card.masked,
        card_expiry_date: card.masked_card.expiry.to_string(),
    }))
}

/// First and last name, which may come in one field: 04 if one is missing.
fn names(form: &Form) -> Result<(Deferred<String>, Deferred<String>)> {
    let whole = form.get("name");
    let (first, last) = whole.map(|name| name.rsplit_once(' ').unwrap_or((name, name))).unzip();
    let name = |field, part: Option<&str>| fields::name(form, field, &part.map(|name| name.trim_end().to_owned()));
    Ok((name("first_name", first)?, name("last_name", last)?))
}

/// `POST /services/wallet_token`: the signed token of the sandbox wallet.
pub(super) async fn wallet_token(state: State<App>, from: ConnectInfo<SocketAddr>, request: Request) -> Response {
    serve(state, from, request, async |app, form| {
        let account = accounts::by_app_key(&app.db, fields::app_key(form)?).await?;
        let number = wallet::test_card(form.get("creditcard_number")).ok_or(Code::Card.refuse())?;
        let amount = fields::amount(form, fields::CENT)?;
        let currency = fields::known_currency(form.get("currency"))?;
        let token = wallet::sign(&app.crypto, &account, &number, amount, currency, app.clock.now());
        Ok(Reply::new(&json!({"code": "00", "description": "Success", "signature_token": token})))
    })
    .await
}

/// `GET /services/3ds/{token}`
pub(super) async fn challenge_page(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let language = challenge::language(&request);
    page(&app, from, path, language, async |token| challenge::show(&app, &token, language).await).await
}

/// `POST /services/3ds/{token}`. It is completed even if the browser disconnects.
pub(super) async fn decision(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let language = challenge::language(&request);
    page(&app, from, path, language, async |token| decide(app.clone(), token, request, language).await).await
}

async fn decide(app: App, token: String, request: Request, language: Language) -> Response {
    let form = match body::form(request, Deadline::start()).await {
        Ok(form) => form,
        Err(refused) => return refused.into_response(),
    };
    let task = {
        let app = app.clone();
        async move { challenge::decide(&app, &token, &form, language).await }
    };
    app.work.spawn(task).await.unwrap_or_else(|_| challenge::unavailable(language))
}

/// Serves a challenge's page, unless the client exceeds its rate limit.
async fn page(
    app: &App,
    from: SocketAddr,
    path: Result<Path<String>, PathRejection>,
    language: Language,
    handler: impl AsyncFnOnce(String) -> Response,
) -> Response {
    if app.rate_limits.check_browser(from.ip()).await.is_err() {
        return challenge::too_many(language);
    }
    match path {
        Ok(Path(token)) => handler(token).await,
        Err(_) => challenge::not_found(language),
    }
}

async fn serve(
    State(app): State<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request,
    handler: impl AsyncFnOnce(&App, &Form) -> Result<Reply>,
) -> Response {
    if let Err(too_many) = app.rate_limits.check_browser(from.ip()).await {
        return envelope::failure(too_many, Code::EntryFailed);
    }
    let form = match body::form(request, Deadline::start()).await {
        Ok(form) => form,
        Err(refused) => return refused.into_response(),
    };
    match handler(&app, &form).await {
        Ok(reply) => reply.into_response(),
        Err(failure) => envelope::failure(failure, Code::EntryFailed),
    }
}
