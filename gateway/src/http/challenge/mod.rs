//! The challenge page, and the redirect back to the merchant. The redirect is only a hint; the report is authoritative.

use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use url::Url;

use super::app::App;
use super::envelope::SUCCESS;
use super::form::Form;
use crate::acquirer::cards;
use crate::amount::Amount;
use crate::cards::TokenHash;
use crate::failure::{Code, Failure};
use crate::processing::finish::TransactionStatus;
use crate::threeds::{self, ChallengeView};
use crate::transactions::{State, reason};

const PAGE: &str = include_str!("page.html");
const NOTICE: &str = include_str!("notice.html");
/// Browsers apply `form-action` to every redirect after a submission, and the merchant's return URL may redirect to
/// other origins, so all are allowed. The form's own target is fixed in the page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self' https: http:; base-uri 'none'; \
     frame-ancestors 'none'";
/// A browser without scripts reloads the page this many seconds after the challenge has ended, and is redirected.
const GRACE_SECONDS: i32 = 3;

/// The challenge page, or the redirect once the challenge is over.
pub(super) async fn show(app: &App, token: &str) -> Response {
    match find(app, token).await {
        Ok(Some(challenge)) if challenge.open => page(&challenge),
        Ok(Some(challenge)) => redirect_when_finished(app, &challenge).await,
        Ok(None) => not_found(),
        Err(response) => response,
    }
}

/// Applies the cardholder's decision and redirects back.
pub(super) async fn decide(app: &App, token: &str, form: &Form) -> Response {
    let challenge = match find(app, token).await {
        Ok(Some(challenge)) => challenge,
        Ok(None) => return not_found(),
        Err(response) => return response,
    };
    let status = match form.get("decision") {
        Some("confirm") => app.processor.confirm(challenge.id).await,
        Some("refuse") => app.processor.refuse(challenge.id).await,
        Some(_) | None => return notice(StatusCode::BAD_REQUEST, "Please choose Confirm or Refuse."),
    };
    match status {
        Ok(status) if is_end(status.state) => redirect(&challenge, &status),
        Ok(_) | Err(_) => redirect_when_finished(app, &challenge).await,
    }
}

async fn find(app: &App, token: &str) -> Result<Option<ChallengeView>, Response> {
    threeds::find(&app.db, TokenHash::of(token)).await.map_err(|error| {
        tracing::error!(%error, "cannot read a challenge");
        unavailable()
    })
}

async fn redirect_when_finished(app: &App, challenge: &ChallengeView) -> Response {
    match app.processor.wait_for_end(challenge.id).await {
        // It has expired, and the sweep has not finished it yet.
        Ok(status) if status.state == State::Challenged => redirect(challenge, &expired()),
        Ok(status) => redirect(challenge, &status),
        Err(_) => unavailable(),
    }
}

const fn is_end(state: State) -> bool {
    match state {
        State::Approved | State::Declined | State::Failed => true,
        State::InProgress | State::Challenged => false,
    }
}

fn expired() -> TransactionStatus {
    TransactionStatus { state: State::Declined, reason: reason::AUTHENTICATION_EXPIRED.to_owned() }
}

/// Redirects to the merchant with `transaction_id`, `code` and `description` added to the query of the return URL.
fn redirect(challenge: &ChallengeView, status: &TransactionStatus) -> Response {
    let Ok(mut url) = Url::parse(&challenge.return_url) else {
        return notice(StatusCode::OK, "Done. You may close this page.");
    };
    let (code, description) = match status.state {
        State::Approved => ("00", SUCCESS.into()),
        State::Declined | State::Failed => {
            let declined = Code::Declined.because(cards::cardholder_reason(&status.reason));
            let (code, description) = declined.describe(Code::Declined);
            (code.code(), description)
        }
        State::InProgress | State::Challenged => {
            let (code, description) = Failure::Unknown.describe(Code::Unknown);
            (code.code(), description)
        }
    };
    let parameters =
        [("transaction_id", challenge.id.to_string()), ("code", code.to_owned()), ("description", description.into())];
    url.query_pairs_mut().extend_pairs(parameters);
    with_private_headers(Redirect::to(url.as_str()))
}

fn page(challenge: &ChallengeView) -> Response {
    let html = PAGE
        .replace("{merchant}", &escape(&challenge.merchant))
        .replace("{amount}", &format!("{} {}", Amount::from_minor(challenge.amount), challenge.currency))
        .replace("{card}", &challenge.masked)
        .replace("{seconds}", &challenge.seconds.to_string())
        .replace("{refresh}", &(challenge.seconds + GRACE_SECONDS).to_string());
    with_private_headers(([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(html)))
}

/// For an unknown token.
pub(super) fn not_found() -> Response {
    notice(StatusCode::NOT_FOUND, "There is nothing to confirm here.")
}

/// For a client over its rate limit.
pub(super) fn too_many() -> Response {
    notice(StatusCode::TOO_MANY_REQUESTS, "There were too many requests. Please try again in a few seconds.")
}

/// For a temporary failure.
pub(super) fn unavailable() -> Response {
    notice(StatusCode::SERVICE_UNAVAILABLE, "This is not possible right now. Please try again in a moment.")
}

fn notice(status: StatusCode, text: &str) -> Response {
    let policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let html = NOTICE.replace("{text}", text);
    with_private_headers((status, [(header::CONTENT_SECURITY_POLICY, policy)], Html(html)))
}

/// Prevents caching and referrers, since the URL authorizes the decision.
fn with_private_headers(response: impl IntoResponse) -> Response {
    let headers: [(HeaderName, &str); 3] = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, response).into_response()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
