//! The page that asks a cardholder, and the redirect back to the merchant. The redirect is a hint: whoever relies on the outcome
//! asks the report.

use std::time::Duration;

use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use url::Url;

use super::store::{self, Shown};
use crate::acquirer::cards;
use crate::amount::Amount;
use crate::app::App;
use crate::cards::TokenHash;
use crate::failure::Failure;
use crate::http::Form;
use crate::id::TransactionId;
use crate::transactions::enter::{self, declined};
use crate::transactions::outcome::{self, Ended, Ending};
use crate::transactions::{State, reason};

const PAGE: &str = include_str!("page.html");
const NOTICE: &str = include_str!("notice.html");
/// A browser asks `form-action` about every address that the answer to the form leads to, and the merchant's may lead on to
/// others. So any will do: where the form itself goes is in a page that nobody can write into.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self' https: http:; base-uri 'none'; \
     frame-ancestors 'none'";
/// After so many more seconds than the question stands, a browser without scripts asks again, and is sent back.
const GRACE_SECONDS: i32 = 3;

/// For five seconds in all an end is waited for, which comes sooner by far.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The page of a challenge; once it is over, the way back.
pub async fn show(app: &App, token: &str) -> Response {
    match find(app, token).await {
        Ok(Some(shown)) if shown.open => page(&shown),
        Ok(Some(shown)) => back(app, &shown).await,
        Ok(None) => nothing(),
        Err(response) => response,
    }
}

/// What the cardholder has decided, and the way back.
pub async fn decide(app: &App, token: &str, form: &Form) -> Response {
    let shown = match find(app, token).await {
        Ok(Some(shown)) => shown,
        Ok(None) => return nothing(),
        Err(response) => return response,
    };
    let ended = match form.get("decision") {
        Some("confirm") => enter::confirm(app, shown.id).await,
        Some("refuse") => refuse(app, &shown).await,
        Some(_) | None => return notice(StatusCode::BAD_REQUEST, "Please choose Confirm or Refuse."),
    };
    match ended {
        Ok(ended) if is_end(ended.state) => redirect(&shown, &ended),
        Ok(_) | Err(_) => back(app, &shown).await,
    }
}

async fn refuse(app: &App, shown: &Shown) -> Result<Ended, Failure> {
    let ending = Ending::declined(reason::AUTHENTICATION_REFUSED, None);
    let ended = outcome::end_challenge(app, shown.id, &ending).await;
    ended.map_err(|error| outcome::unknown(shown.id, &error))
}

async fn find(app: &App, token: &str) -> Result<Option<Shown>, Response> {
    store::find(&app.db, TokenHash::of(token)).await.map_err(|error| {
        tracing::error!(%error, "a challenge cannot be read");
        away()
    })
}

async fn back(app: &App, shown: &Shown) -> Response {
    match settled(app, shown.id).await {
        // Nobody confirmed in time, and the sweep has not come by yet.
        Ok(ended) if ended.state == State::Challenged => redirect(shown, &expired()),
        Ok(ended) => redirect(shown, &ended),
        Err(_) => away(),
    }
}

/// How it has ended. Who presses a button twice waits for what the first one does, for a while.
async fn settled(app: &App, id: TransactionId) -> Result<Ended, sqlx::Error> {
    let mut ended = outcome::read(app, id).await?;
    for _ in 0..LOOKS {
        if ended.state != State::InProgress {
            break;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
        ended = outcome::read(app, id).await?;
    }
    Ok(ended)
}

const fn is_end(state: State) -> bool {
    match state {
        State::Approved | State::Declined | State::Failed => true,
        State::InProgress | State::Challenged => false,
    }
}

fn expired() -> Ended {
    Ended { state: State::Declined, reason: reason::AUTHENTICATION_EXPIRED.to_owned() }
}

/// Back to the merchant with `transaction_id`, `code` and `description`. What the address asks already stays.
fn redirect(shown: &Shown, ended: &Ended) -> Response {
    let Ok(mut url) = Url::parse(&shown.return_url) else {
        return notice(StatusCode::OK, "This is done. You may close this page.");
    };
    let (code, description) = match ended.state {
        State::Approved => ("00", crate::http::envelope::SUCCESS.into()),
        State::Declined | State::Failed => {
            let (code, description) =
                declined(cards::for_cardholder(&ended.reason)).told(crate::failure::Code::Declined);
            (code.code(), description)
        }
        State::InProgress | State::Challenged => {
            let (code, description) = Failure::Unknown.told(crate::failure::Code::Unknown);
            (code.code(), description)
        }
    };
    let answer =
        [("transaction_id", shown.id.to_string()), ("code", code.to_owned()), ("description", description.into())];
    url.query_pairs_mut().extend_pairs(answer);
    private(Redirect::to(url.as_str()))
}

fn page(shown: &Shown) -> Response {
    let html = PAGE
        .replace("{merchant}", &escape(&shown.merchant))
        .replace("{amount}", &format!("{} {}", Amount::hundredths(shown.amount), shown.currency))
        .replace("{card}", &shown.masked)
        .replace("{seconds}", &shown.seconds.to_string())
        .replace("{refresh}", &(shown.seconds + GRACE_SECONDS).to_string());
    private(([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(html)))
}

/// For an address that is no challenge's.
pub fn nothing() -> Response {
    notice(StatusCode::NOT_FOUND, "There is nothing to confirm here.")
}

/// For a browser that comes too often.
pub fn too_many() -> Response {
    notice(StatusCode::TOO_MANY_REQUESTS, "There were too many requests. Please try again in a few seconds.")
}

/// Where the gateway cannot do it now.
pub fn away() -> Response {
    notice(StatusCode::SERVICE_UNAVAILABLE, "This cannot be done now. Please try again in a moment.")
}

fn notice(status: StatusCode, text: &str) -> Response {
    let policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let html = NOTICE.replace("{text}", text);
    private((status, [(header::CONTENT_SECURITY_POLICY, policy)], Html(html)))
}

/// Kept by nobody, and told to nobody as where a visitor came from.
fn private(response: impl IntoResponse) -> Response {
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
