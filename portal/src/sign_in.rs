//! Signing in and out.

use std::net::SocketAddr;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, Html, IntoResponse as _, Redirect, Response};
use domain::users::{self, LIFETIME};
use foundation::crypto::Secret;
use maud::{Markup, html};
use url::form_urlencoded;

use crate::app::App;
use crate::document::document;
use crate::failure::Failure;
use crate::session::{NAME, cookie};
use crate::texts::text;

pub(crate) async fn form() -> Html<String> {
    page("", None)
}

pub(crate) async fn submit(
    State(app): State<App>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let field = |name: &str| form_urlencoded::parse(&body).find(|(field, _)| field == name).map(|(_, value)| value);
    let email = field("email").unwrap_or_default().trim().to_owned();
    let password = Secret::new(field("password").unwrap_or_default().into_owned());
    if !app.may_sign_in(client.ip(), &email).await {
        let problem = text("There were too many attempts. Please try again in some minutes.");
        return Ok((StatusCode::TOO_MANY_REQUESTS, page(&email, Some(problem))).into_response());
    }
    let Some(session) = users::sign_in(app.api.pool(), &email, password).await.map_err(Failure::internal)? else {
        tracing::warn!(client = %client.ip(), "a sign-in was refused");
        let problem = text("The e-mail address or the password is wrong.");
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, page(&email, Some(problem))).into_response());
    };
    app.signed_in(client.ip(), &email).await;
    if let Some(former) = cookie(&headers) {
        users::delete_session(app.api.pool(), former).await.map_err(Failure::internal)?;
    }
    tracing::info!(user = %session.user, "a user has signed in");
    let cookie = set_cookie(session.cookie.expose(), LIFETIME.as_secs());
    Ok((AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to("/")).into_response())
}

pub(crate) async fn sign_out(State(app): State<App>, headers: HeaderMap) -> Result<Response, Failure> {
    if let Some(cookie) = cookie(&headers) {
        users::delete_session(app.api.pool(), cookie).await.map_err(Failure::internal)?;
    }
    Ok((AppendHeaders([(SET_COOKIE, set_cookie("", 0))]), Redirect::to("/sign-in")).into_response())
}

fn set_cookie(value: &str, seconds: u64) -> String {
    format!("{NAME}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax")
}

fn page(email: &str, problem: Option<&str>) -> Html<String> {
    let body: Markup = html! {
        main.sign-in {
            h1 { (text("Sign in")) }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            form method="post" action="/sign-in" {
                label for="email" { (text("E-mail")) }
                input #email type="email" name="email" value=(email) autocomplete="username" required maxlength="254";
                label for="password" { (text("Password")) }
                input #password type="password" name="password" autocomplete="current-password" required maxlength="128";
                button { (text("Sign in")) }
            }
        }
    };
    document(text("Sign in"), &body)
}
