//! The page on which an invited person becomes a user.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse as _, Response};
use domain::users::{self, Invitation};
use foundation::crypto::Secret;
use foundation::error::Error;
use maud::html;

use crate::app::{App, Attempt};
use crate::document::document;
use crate::failure::Failure;
use crate::form::Entered;
use crate::sign_in;
use crate::texts::{marked, message, text, words_of};

pub(crate) async fn form(State(app): State<App>, Path(token): Path<String>) -> Result<Html<String>, Failure> {
    let found = users::find_invitation(app.api.pool(), &token).await.map_err(Failure::internal)?;
    Ok(page(&found.ok_or(Failure::NotFound)?, &token, None))
}

pub(crate) async fn accept(
    State(app): State<App>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    Path(token): Path<String>,
    headers: HeaderMap,
    entered: Entered,
) -> Result<Response, Failure> {
    let found = users::find_invitation(app.api.pool(), &token).await.map_err(Failure::internal)?;
    let found = found.ok_or(Failure::NotFound)?;
    let attempt = Attempt { address: client.ip(), email: &found.email, device: None, code: None };
    if !app.may_sign_in(attempt).await {
        return Err(Failure::TooMany);
    }
    let password = Secret::new(entered.get("password").to_owned());
    let agent = sign_in::user_agent(&headers);
    match users::accept_invitation(app.api.pool(), app.clock.now(), &token, password, agent).await {
        Ok(session) => {
            app.restore_attempt(attempt).await;
            sign_in::begin(&app, &headers, &session, &found.email, None).await
        }
        Err(Error::NotFound(_)) => Err(Failure::NotFound),
        Err(error @ (Error::Invalid { .. } | Error::Conflict(_))) => {
            let page = page(&found, &token, Some(&message(&error.to_string())));
            Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
        }
        Err(error) => {
            app.restore_attempt(attempt).await;
            Err(Failure::of_limited(error))
        }
    }
}

fn page(invitation: &Invitation, token: &str, problem: Option<&str>) -> Html<String> {
    let body = html! {
        main.sign-in {
            h1 { (text("Invitation")) }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            p {
                (marked("{merchant} invites you as {role}. Please choose a password.", &[
                    ("merchant", html! { strong { (invitation.merchant) } }),
                    ("role", html! { strong { (words_of("role", invitation.role.name())) } }),
                ]))
            }
            form method="post" action={ "/invitations/" (token) } {
                label for="email" { (text("E-mail")) }
                input #email type="email" value=(invitation.email) autocomplete="username" readonly;
                label for="password" { (text("Password")) }
                input #password type="password" name="password" autocomplete="new-password" required minlength="12" maxlength="128";
                button { (text("Accept invitation")) }
            }
        }
    };
    document(text("Invitation"), &body)
}
