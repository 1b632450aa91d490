//! Redirects to a 3-D Secure challenge and back. Merchants and cardholders see this URL instead of the provider's.
//!
//! The query of the return URL is untrusted and not read: the provider is queried for the outcome.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::{LOCATION, REFRESH};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use domain::accounts::{self, Payee};
use domain::payments::{Payment, Status};
use engine::Challenge;
use engine::PageKind;
use engine::PageState;
use engine::ReturnTo;
use foundation::error::Error;
use foundation::queues;
use maud::html;
use providers::ProviderKind;
use queue::Wake;
use tokio::time::{Instant, sleep};
use url::Url;

use super::error_page::ErrorPage;
use super::layout::{REFRESH_SECONDS, page, page_of};
use super::messages;
use super::reader::{LANG, Reader};
use super::receipt::contact;
use super::token::Token;
use crate::app::App;
use crate::html::merchant_text;
use crate::request_id;

/// How long a returning browser waits for the outcome.
const TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const WAKE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn router() -> Router<App> {
    Router::new().route("/pay/a/{token}", get(start)).route("/pay/a/{token}/return", get(finish))
}

/// Redirects to the provider while the challenge is open.
async fn start(
    State(app): State<App>,
    Extension(reader): Extension<Reader>,
    Token(token): Token,
) -> Result<Response, ErrorPage> {
    let challenge = engine::challenge(&app.db, &token).await?;
    let reader = reader.or_language(challenge.language.as_deref());
    match (&challenge.payment.challenge_url, challenge.payment.status) {
        (Some(url), Status::RequiresAction) => Ok(redirect(&bank_page(reader, challenge.provider, url))),
        _ => Ok(redirect_back(&app, reader, &challenge).await),
    }
}

/// The bank's page. The simulated bank of the card gateway shows it in the chosen language.
fn bank_page(reader: Reader, provider: ProviderKind, url: &str) -> String {
    let language = reader.chosen_language().filter(|_| provider == ProviderKind::CardGateway);
    match (language, Url::parse(url)) {
        (Some(language), Ok(mut page)) => {
            page.query_pairs_mut().append_pair(LANG, language);
            page.into()
        }
        (_, _) => url.to_owned(),
    }
}

/// Handles the return from the provider; anyone can open this URL.
async fn finish(
    State(app): State<App>,
    Extension(reader): Extension<Reader>,
    Token(token): Token,
) -> Result<Response, ErrorPage> {
    let mut challenge = engine::challenge(&app.db, &token).await?;
    if challenge.payment.status == Status::RequiresAction && app.limits.may_wait_for(challenge.operation).await {
        await_outcome(&app, &mut challenge).await;
    }
    let reader = reader.or_language(challenge.language.as_deref());
    Ok(redirect_back(&app, reader, &challenge).await)
}

/// Reads the payment until it has an outcome; it is still `requires_action` at the timeout. All who wait wake the worker
/// once a second together, so that it looks again soon after a return that directly follows another one.
async fn await_outcome(app: &App, Challenge { payment, operation, .. }: &mut Challenge) {
    let began = Instant::now();
    let mut next_wake = began;
    while payment.status == Status::RequiresAction && began.elapsed() < TIMEOUT {
        if Instant::now() >= next_wake {
            next_wake = Instant::now() + WAKE_INTERVAL;
            if app.limits.may_wake(*operation).await {
                let request_id = request_id::current().map(|id| id.to_string());
                app.publisher.post(queues::PAYMENTS, Wake { id: operation.uuid(), request_id });
            }
        }
        sleep(POLL_INTERVAL).await;
        match app.payments.retrieve(payment.account_id, payment.id).await {
            Ok(read) => *payment = read,
            Err(error) => tracing::warn!(%error, payment = %payment.id, "the payment could not be read; retrying"),
        }
    }
}

/// Sends the cardholder back to where the payment was started.
async fn redirect_back(app: &App, reader: Reader, challenge: &Challenge) -> Response {
    let payment = &challenge.payment;
    match &challenge.return_to {
        // Absolute: the two routes, /pay/a/{token} and /pay/a/{token}/return, would need different relative paths.
        ReturnTo::Page(PageKind::Invoice, token) => redirect(&format!("/pay/i/{}", reader.page_of(token, payment))),
        ReturnTo::Page(PageKind::Link, token) => redirect(&format!("/pay/l/{}", reader.page_of(token, payment))),
        ReturnTo::Merchant(url) => match Url::parse(url) {
            Ok(mut url) => {
                url.query_pairs_mut().append_pair("paymentId", &payment.id.to_string());
                redirect(url.as_str())
            }
            Err(_) => status_page(app, reader, payment).await,
        },
        ReturnTo::Unspecified => status_page(app, reader, payment).await,
    }
}

/// The merchant of a payment; `None` if it cannot be read now: the page says what became of the payment without it, too.
async fn payee(app: &App, payment: &Payment) -> Option<Payee> {
    let read = async { accounts::payee(&mut *app.db.acquire().await?, payment.account_id).await };
    let warn = |error: &Error| tracing::warn!(%error, payment = %payment.id, "the merchant could not be read");
    read.await.inspect_err(warn).ok()
}

/// The page for a payment without a return URL.
async fn status_page(app: &App, reader: Reader, payment: &Payment) -> Response {
    let (texts, payee) = (reader.texts(), payee(app, payment).await);
    // Nothing can be tried again here.
    let failure = || messages::of_payment(texts, payment, PageState::Paid).unwrap_or_default();
    let (title, lines) = match payment.status {
        Status::Processing | Status::RequiresAction => (texts.one_moment(), vec![texts.bank_pending()]),
        Status::Declined => (texts.payment_declined(), failure()),
        Status::Failed => (texts.payment_not_made(), failure()),
        Status::Authorized
        | Status::PartiallyAuthorized
        | Status::PendingSettlement
        | Status::Settled
        | Status::PartiallyRefunded => (texts.thank_you(), vec![texts.bank_confirmed()]),
        Status::Refunded | Status::Cancelled | Status::Expired => {
            (texts.payment_undone_title(), vec![texts.payment_undone()])
        }
    };
    let body = html! {
        section role="status" {
            @if let Some(payee) = &payee { p.payee { (merchant_text(&payee.name)) } }
            h1 { (title) }
            @for line in lines { p { (line) } }
            @if !payment.status.is_under_way() { p { (texts.close_page()) } }
        }
        @if let Some(payee) = &payee { (contact(reader, payee)) }
    };
    let mut response = match &payee {
        Some(payee) => page_of(payee, reader, StatusCode::OK, &title, &body, None),
        None => page(reader, StatusCode::OK, &title, &body),
    };
    if payment.status.is_under_way() {
        response.headers_mut().insert(REFRESH, HeaderValue::from_static(REFRESH_SECONDS));
    }
    response
}

/// The URL was validated when it was stored; one that is not a valid header value gets a 404.
fn redirect(url: &str) -> Response {
    match HeaderValue::try_from(url) {
        Ok(location) => (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response(),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    use super::*;

    #[test]
    fn redirect_urls_cannot_inject_headers() {
        check(prop_oneof![mutated("https://shop.example/thanks?a=1"), texts()], |url| {
            let response = redirect(&url);
            match response.headers().get(LOCATION) {
                Some(location) => {
                    assert_eq!((response.status(), location.as_bytes()), (StatusCode::SEE_OTHER, url.as_bytes()));
                    assert!(!url.contains(['\r', '\n', '\0']), "{url:?}");
                }
                None => assert_eq!(response.status(), StatusCode::NOT_FOUND),
            }
        });
    }
}
