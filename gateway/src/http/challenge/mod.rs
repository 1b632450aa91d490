//! The challenge page, and the redirect back to the merchant. The redirect is only a hint; the report is authoritative.

use axum::extract::Request;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use foundation::money::{Currency, Money};
use maud::{DOCTYPE, Markup, html};
use texts::{Language, price};
use url::{Url, form_urlencoded};

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

/// Browsers apply `form-action` to every redirect after a submission, and the merchant's return URL may redirect to
/// other origins, so all are allowed. The form's own target is fixed in the page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self' https: http:; base-uri 'none'; \
     frame-ancestors 'none'";
/// A browser without scripts reloads the page this many seconds after the challenge has ended, and is redirected.
const GRACE_SECONDS: i32 = 3;

/// The placeholder for the seconds left in the text of the countdown, until the script replaces it.
const SECONDS: &str = "\u{fffc}";

/// The language of the pages: that of `lang` in the URL, otherwise the preferred one of `Accept-Language`.
pub(super) fn language(request: &Request) -> Language {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let lang = form_urlencoded::parse(query).find(|(name, _)| name == "lang").map(|(_, value)| value);
    let accepted = request.headers().get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    Language::of_request(lang.as_deref(), accepted)
}

/// The challenge page, or the redirect once the challenge is over.
pub(super) async fn show(app: &App, token: &str, language: Language) -> Response {
    match find(app, token, language).await {
        Ok(Some(challenge)) if challenge.open => page(&challenge, language),
        Ok(Some(challenge)) => redirect_when_finished(app, &challenge, language).await,
        Ok(None) => not_found(language),
        Err(response) => response,
    }
}

/// Applies the cardholder's decision and redirects back.
pub(super) async fn decide(app: &App, token: &str, form: &Form, language: Language) -> Response {
    let challenge = match find(app, token, language).await {
        Ok(Some(challenge)) => challenge,
        Ok(None) => return not_found(language),
        Err(response) => return response,
    };
    let status = match form.get("decision") {
        Some("confirm") => app.processor.confirm(challenge.id).await,
        Some("refuse") => app.processor.refuse(challenge.id).await,
        Some(_) | None => return notice(language, StatusCode::BAD_REQUEST, &language.texts().bank_choose()),
    };
    match status {
        Ok(status) if is_end(status.state) => redirect(&challenge, &status, language),
        Ok(_) | Err(_) => redirect_when_finished(app, &challenge, language).await,
    }
}

async fn find(app: &App, token: &str, language: Language) -> Result<Option<ChallengeView>, Response> {
    threeds::find(&app.db, TokenHash::of(token)).await.map_err(|error| {
        tracing::error!(%error, "cannot read a challenge");
        unavailable(language)
    })
}

async fn redirect_when_finished(app: &App, challenge: &ChallengeView, language: Language) -> Response {
    match app.processor.wait_for_end(challenge.id).await {
        // It has expired, and the sweep has not finished it yet.
        Ok(status) if status.state == State::Challenged => redirect(challenge, &expired(), language),
        Ok(status) => redirect(challenge, &status, language),
        Err(_) => unavailable(language),
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
fn redirect(challenge: &ChallengeView, status: &TransactionStatus, language: Language) -> Response {
    let Ok(mut url) = Url::parse(&challenge.return_url) else {
        return notice(language, StatusCode::OK, &language.texts().bank_done());
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

fn page(challenge: &ChallengeView, language: Language) -> Response {
    let texts = language.texts();
    let scripts = html! {
        script src="../bank.js" defer {}
        noscript { meta http-equiv="refresh" content=(challenge.seconds + GRACE_SECONDS); }
    };
    let body = html! {
        p.test { (texts.bank_simulated()) }
        section {
            p.payee { bdi { (challenge.merchant) } }
            h1 { (amount(challenge, language)) }
            h2 { (texts.bank_title()) }
            p { (texts.bank_question(&challenge.masked)) }
            form #question method="post" {
                button name="decision" value="confirm" { (texts.bank_confirm()) }
                button.second name="decision" value="refuse" { (texts.bank_refuse()) }
            }
            p #time .quiet role="timer" data-seconds=(challenge.seconds) data-text=(texts.bank_time(SECONDS)) {
                (texts.bank_time(challenge.seconds.to_string()))
            }
            div #over .notice.bad role="alert" tabindex="-1" hidden {
                p { (texts.bank_time_over()) }
                p { a.button href="" { (texts.bank_go_back()) } }
            }
        }
    };
    let html = Html(document(language, &scripts, &body));
    with_private_headers(([(header::CONTENT_SECURITY_POLICY, POLICY)], html))
}

fn document(language: Language, scripts: &Markup, body: &Markup) -> String {
    let document = html! {
        (DOCTYPE)
        html lang=(language.code()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (language.texts().bank_title()) }
                link rel="stylesheet" href="../bank.css";
                (scripts)
            }
            body { main { (body) } }
        }
    };
    document.into_string()
}

/// The amount as payment pages show it: the currency follows where the notation has only a symbol.
fn amount(challenge: &ChallengeView, language: Language) -> Markup {
    let (minor, code) = (challenge.amount, &challenge.currency);
    let Ok(currency) = code.parse::<Currency>() else {
        return html! { (Amount::from_minor(minor).to_string()) " " (code) };
    };
    let shown = price(language, Money { minor, currency });
    html! {
        (shown)
        @if !shown.contains(currency.code()) { " " small { (code) } }
    }
}

/// For an unknown token.
pub(super) fn not_found(language: Language) -> Response {
    notice(language, StatusCode::NOT_FOUND, &language.texts().bank_nothing())
}

/// For a client over its rate limit.
pub(super) fn too_many(language: Language) -> Response {
    notice(language, StatusCode::TOO_MANY_REQUESTS, &language.texts().field_busy())
}

/// For a temporary failure.
pub(super) fn unavailable(language: Language) -> Response {
    notice(language, StatusCode::SERVICE_UNAVAILABLE, &language.texts().bank_unavailable())
}

fn notice(language: Language, status: StatusCode, text: &str) -> Response {
    let policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let body = html! {
        section {
            h1.words { (language.texts().bank_title()) }
            p role="status" { (text) }
        }
    };
    let html = Html(document(language, &Markup::default(), &body));
    with_private_headers((status, [(header::CONTENT_SECURITY_POLICY, policy)], html))
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
