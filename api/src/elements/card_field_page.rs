//! The card field: a page that only the merchant's origin may frame, for the duration of a checkout session.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use domain::checkout;
use foundation::error::Error;
use maud::{Markup, html};

use super::appearance::Appearance;
use super::card_inputs::INPUTS_STYLE;
use super::card_tokenization_config::{CardTokenizationConfig, FormPurpose};
use crate::app::App;
use crate::error::ApiError;
use crate::html::{self as page, Style};
use crate::path::Path;
use crate::request_layer::client_address;

static STYLE: LazyLock<Style> = LazyLock::new(|| Style::new(&[include_str!("field.css"), INPUTS_STYLE]));

/// The route. No response may be cached.
pub(super) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/elements/field/{session}", get(show).fallback(async || ApiError::method_not_allowed()))
        .layer(from_fn_with_state(app.clone(), limit_by_address))
}

/// Applies the rate limit of the client address, which payment pages share.
async fn limit_by_address(State(app): State<App>, request: Request, next: Next) -> Response {
    let decision = app.limits.acquire_page(client_address(&request)).await;
    let appearance = Appearance::of(&request);
    let mut response = if decision.allowed {
        next.run(request).await
    } else {
        let mut response = error_page(appearance, StatusCode::TOO_MANY_REQUESTS);
        ApiError::rate_limited(decision).write_retry(response.headers_mut());
        response
    };
    page::set_private_headers(response.headers_mut());
    response
}

async fn show(State(app): State<App>, session: Result<Path<String>, ApiError>, request: Request) -> Response {
    let appearance = Appearance::of(&request);
    let Ok(Path(id)) = session else { return error_page(appearance, StatusCode::NOT_FOUND) };
    match checkout::field_session(&app.db, &id).await {
        Ok(session) => match CardTokenizationConfig::of_session(&app, &session) {
            Some(tokenization_config) => field(appearance, &session.origin, &tokenization_config),
            None => error_page(appearance, StatusCode::NOT_IMPLEMENTED),
        },
        Err(Error::NotFound(_)) => error_page(appearance, StatusCode::NOT_FOUND),
        Err(Error::Conflict(_)) => error_page(appearance, StatusCode::CONFLICT),
        Err(error) => error_page(appearance, ApiError::from(error).status()),
    }
}

fn field(appearance: Appearance, origin: &str, tokenization_config: &CardTokenizationConfig) -> Response {
    // The origin is on the allow-list, but it must also be safe to insert into the policy.
    let is_safe = |c: char| c.is_ascii_alphanumeric() || ":/.-_[]".contains(c);
    if !origin.chars().all(is_safe) {
        return error_page(appearance, StatusCode::CONFLICT);
    }
    let texts = appearance.language.texts();
    let form = tokenization_config.form(FormPurpose::Field { origin }, texts, &tokenization_config.inputs(texts));
    let body = html! {
        (form)
        noscript { (texts.field_script_needed()) }
    };
    let policy = format!(
        "default-src 'none'; style-src {}; {}; base-uri 'none'; frame-ancestors {origin}",
        STYLE.source(),
        tokenization_config.sources().of_field(),
    );
    html_response(StatusCode::OK, &policy, document(appearance, &tokenization_config.field_scripts("../"), &body))
}

/// An error instead of the field. No page may frame it, because the merchant's origin is not known here.
fn error_page(appearance: Appearance, status: StatusCode) -> Response {
    let texts = appearance.language.texts();
    let message = match status {
        StatusCode::NOT_FOUND => texts.field_unknown(),
        StatusCode::CONFLICT => texts.field_used(),
        StatusCode::TOO_MANY_REQUESTS => texts.field_busy(),
        StatusCode::NOT_IMPLEMENTED => texts.field_unavailable(),
        _ => texts.field_failed(),
    };
    let policy = format!(
        "default-src 'none'; style-src {}; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
        STYLE.source()
    );
    html_response(status, &policy, document(appearance, &Markup::default(), &html! { p role="alert" { (message) } }))
}

fn document(appearance: Appearance, scripts: &Markup, body: &Markup) -> String {
    let texts = appearance.language.texts();
    let main = html! {
        main data-theme=(appearance.theme) {
            h1.visually-hidden { (texts.card_details()) }
            (body)
        }
    };
    page::document(appearance.language, &texts.card(), &STYLE, scripts, &main)
}

fn html_response(status: StatusCode, policy: &str, html: String) -> Response {
    let mut response = (status, page::HTML, html).into_response();
    match HeaderValue::try_from(policy) {
        Ok(policy) => {
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
            response
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};
    use texts::Language;

    use super::*;

    #[test]
    fn an_origin_cannot_inject_into_the_policy() {
        check(prop_oneof![mutated("https://shop.example:8443"), texts()], |origin| {
            let appearance = Appearance { language: Language::En, theme: "light" };
            let response = field(appearance, &origin, &CardTokenizationConfig::Mock);
            let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().expect("ASCII");
            if response.status() == StatusCode::OK {
                let ancestors = policy.rsplit_once("frame-ancestors ").expect("a directive").1;
                assert!(ancestors == origin && !ancestors.contains([' ', ';', ',', '\'', '*']), "{policy}");
            } else {
                assert!(response.status() == StatusCode::CONFLICT && policy.ends_with("frame-ancestors 'none'"));
            }
        });
    }
}
