//! Signing in and out.

use std::net::SocketAddr;

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::header::{SET_COOKIE, USER_AGENT};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, Html, IntoResponse as _, Redirect, Response};
use domain::users::{self, CHALLENGE_LIFETIME, CODE_LIFETIME, Passed, PasskeySignIn, Session};
use foundation::crypto::Secret;
use maud::html;

use crate::app::{App, Attempt};
use crate::device;
use crate::document::document;
use crate::failure::Failure;
use crate::form::Entered;
use crate::passkeys::{self, Ceremony};
use crate::session::{
    cookie, cookie_named, forget_requested_page, remove_session, requested_page, set_cookie, set_session,
};
use crate::texts::text;

/// Between the password and the code of the second factor.
const AWAITING: &str = "__Host-sign-in";
/// Between the challenge for a passkey and its signature.
const CHALLENGE: &str = "__Host-passkey";
const TOO_MANY: &str = "There were too many attempts. Please try again in some minutes.";

pub(crate) async fn form(State(app): State<App>) -> Html<String> {
    page(&app, "", None)
}

pub(crate) async fn submit(
    State(app): State<App>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    entered: Entered,
) -> Result<Response, Failure> {
    let (email, password) = (entered.get("email"), Secret::new(entered.get("password").to_owned()));
    let device = device::known(&app, &headers, email);
    let attempt = Attempt { address: client.ip(), email, device, code: None };
    if !app.may_sign_in(attempt).await {
        return Ok((StatusCode::TOO_MANY_REQUESTS, page(&app, email, Some(text(TOO_MANY)))).into_response());
    }
    let passed = users::sign_in(app.api.pool(), email, password, user_agent(&headers)).await;
    if !matches!(passed, Ok(None)) {
        app.restore_attempt(attempt).await;
    }
    match passed.map_err(Failure::of_limited)? {
        None => {
            tracing::warn!(client = %client.ip(), "a sign-in was refused");
            let problem = text("The e-mail address or the password is wrong.");
            Ok((StatusCode::UNPROCESSABLE_ENTITY, page(&app, email, Some(problem))).into_response())
        }
        Some(Passed::Awaiting(cookie)) => {
            let cookie = set_cookie(AWAITING, cookie.expose(), CODE_LIFETIME.as_secs());
            Ok((AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to("/sign-in/code")).into_response())
        }
        Some(Passed::In(session)) => begin(&app, &headers, &session, email, None).await,
    }
}

/// The page on which the code of the second factor is entered.
pub(crate) async fn code_form(State(app): State<App>, headers: HeaderMap) -> Result<Response, Failure> {
    let awaited = match cookie_named(AWAITING, &headers) {
        Some(cookie) => users::awaited_user(app.api.pool(), cookie).await.map_err(Failure::internal)?,
        None => None,
    };
    Ok(if awaited.is_some() { code_page(None).into_response() } else { Redirect::to("/sign-in").into_response() })
}

pub(crate) async fn submit_code(
    State(app): State<App>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    entered: Entered,
) -> Result<Response, Failure> {
    let (db, cookie) = (app.api.pool(), cookie_named(AWAITING, &headers).unwrap_or_default());
    let Some(users::Awaited { id: user, email, factor }) =
        users::awaited_user(db, cookie).await.map_err(Failure::internal)?
    else {
        return Ok(Redirect::to("/sign-in").into_response());
    };
    let device = device::known(&app, &headers, &email);
    let passed = device.filter(|device| device::has_passed(device, &factor));
    let attempt = Attempt { address: client.ip(), email: &email, device, code: Some((user, passed)) };
    if !app.may_sign_in(attempt).await {
        return Ok((StatusCode::TOO_MANY_REQUESTS, code_page(Some(text(TOO_MANY)))).into_response());
    }
    let agent = user_agent(&headers);
    let session = users::sign_in_with_code(db, app.api.encryption(), (user, cookie), entered.get("code"), agent).await;
    if !matches!(session, Ok(None)) {
        app.restore_attempt(attempt).await;
    }
    let Some(session) = session.map_err(Failure::internal)? else {
        tracing::warn!(client = %client.ip(), %user, "a code was refused");
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, code_page(Some(text("The code is wrong.")))).into_response());
    };
    begin(&app, &headers, &session, &email, Some(factor.as_str())).await
}

/// What the browser needs to sign in with a passkey, of whatever user.
pub(crate) async fn passkey_options(State(app): State<App>) -> Result<Response, Failure> {
    let site = app.passkeys.as_deref().ok_or(Failure::NotFound)?;
    let (options, cookie) = users::begin_passkey_sign_in(app.api.pool(), site).await.map_err(Failure::internal)?;
    let cookie = set_cookie(CHALLENGE, cookie.expose(), CHALLENGE_LIFETIME.as_secs());
    Ok((AppendHeaders([(SET_COOKIE, cookie)]), Json(options)).into_response())
}

pub(crate) async fn submit_passkey(
    State(app): State<App>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    entered: Entered,
) -> Result<Response, Failure> {
    let site = app.passkeys.as_deref().ok_or(Failure::NotFound)?;
    if !app.may_try_passkey(client.ip()).await {
        return Ok((StatusCode::TOO_MANY_REQUESTS, page(&app, "", Some(text(TOO_MANY)))).into_response());
    }
    let response = (cookie_named(CHALLENGE, &headers).unwrap_or_default(), entered.get("credential"));
    let passed = users::sign_in_with_passkey(app.api.pool(), site, response, user_agent(&headers)).await;
    if !matches!(passed, Ok(None)) {
        app.restore_passkey(client.ip()).await;
    }
    let Some(PasskeySignIn { session, email, factor }) = passed.map_err(Failure::internal)? else {
        tracing::warn!(client = %client.ip(), "a passkey was refused");
        let problem = text("The passkey was not accepted.");
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, page(&app, "", Some(problem))).into_response());
    };
    begin(&app, &headers, &session, &email, factor.as_deref()).await
}

/// Signs the browser in, with a cookie that it did not have before, and leads to the page that it has requested, unless
/// another user may have. `factor` is the second factor of which a code was accepted, or a passkey instead.
pub(crate) async fn begin(
    app: &App,
    headers: &HeaderMap,
    session: &Session,
    email: &str,
    factor: Option<&str>,
) -> Result<Response, Failure> {
    if let Some(former) = cookie(headers) {
        users::delete_session(app.api.pool(), former).await.map_err(Failure::internal)?;
    }
    tracing::info!(user = %session.user, "a user has signed in");
    let page = if device::is_of_another(app, headers, email) { "/".to_owned() } else { requested_page(headers) };
    let device = set_cookie(device::NAME, &device::new(app, email, factor), device::LIFETIME);
    let done = [AWAITING, CHALLENGE].map(|name| set_cookie(name, "", 0));
    let cookies = [set_session(&session.cookie), device, forget_requested_page()].into_iter().chain(done);
    let cookies = cookies.map(|cookie| (SET_COOKIE, cookie));
    Ok((AppendHeaders(cookies), Redirect::to(&page)).into_response())
}

pub(crate) fn user_agent(headers: &HeaderMap) -> &str {
    headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

pub(crate) async fn sign_out(State(app): State<App>, headers: HeaderMap) -> Result<Response, Failure> {
    if let Some(cookie) = cookie(&headers) {
        users::delete_session(app.api.pool(), cookie).await.map_err(Failure::internal)?;
    }
    let cookies = [remove_session(), forget_requested_page()].map(|cookie| (SET_COOKIE, cookie));
    Ok((AppendHeaders(cookies), Redirect::to("/sign-in")).into_response())
}

fn code_page(problem: Option<&str>) -> Html<String> {
    let body = html! {
        main.sign-in {
            h1 { (text("Sign in")) }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            form method="post" action="/sign-in/code" {
                label for="code" { (text("Code")) }
                input #code type="text" name="code" inputmode="numeric" autocomplete="one-time-code" required maxlength="20" autofocus;
                p { (text("Enter the code that your authenticator app shows, or a recovery code.")) }
                button { (text("Sign in")) }
            }
            p { a href="/sign-in" { (text("Back")) } }
        }
    };
    document(text("Sign in"), &body)
}

fn page(app: &App, email: &str, problem: Option<&str>) -> Html<String> {
    let body = html! {
        main.sign-in {
            p.kind { "Unified Payments" }
            h1 { (text("Sign in")) }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            form method="post" action="/sign-in" {
                label for="email" { (text("E-mail")) }
                input #email type="email" name="email" value=(email) autocomplete="username" required maxlength="254" autofocus[email.is_empty()];
                label for="password" { (text("Password")) }
                input #password type="password" name="password" autocomplete="current-password" required maxlength="128";
                button { (text("Sign in")) }
            }
            @if app.passkeys.is_some() {
                form method="post" action="/sign-in/passkey" hidden {
                    (passkeys::field(Ceremony::Get))
                    button.plain { (text("Sign in with a passkey")) }
                }
            }
        }
    };
    document(text("Sign in"), &body)
}
