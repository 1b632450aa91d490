//! The layout of payment pages, with their style, Content-Security-Policy and headers.

use std::sync::LazyLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::reader::Reader;
use crate::elements::{CardTokenizationConfig, INPUTS_STYLE};
use crate::html::{HTML, Style, document, set_private_headers};

/// A page that waits for an outcome reloads after this many seconds.
pub(super) const REFRESH_SECONDS: &str = "3";
/// For a page with a button to press, so that a reload rarely interrupts the reader.
pub(super) const SLOW_REFRESH_SECONDS: &str = "15";

static STYLE: LazyLock<Style> = LazyLock::new(|| Style::new(&[include_str!("page.css"), INPUTS_STYLE]));

/// Allows the inline style and a form that posts to this service; no script, no framing, no other server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| policy(None));

/// With a `tokenization_config`, also allows the scripts, and the servers that they send the card to.
fn policy(tokenization_config: Option<&CardTokenizationConfig>) -> HeaderValue {
    let sources = match tokenization_config {
        Some(tokenization_config) => tokenization_config.sources().of_page(),
        None => "form-action 'self'".to_owned(),
    };
    let policy =
        format!("default-src 'none'; style-src {}; {sources}; base-uri 'none'; frame-ancestors 'none'", STYLE.source());
    HeaderValue::try_from(policy).expect("base64, keywords and a URL's origin are valid in a header")
}

pub(super) fn page(reader: Reader, status: StatusCode, title: &str, body: &Markup) -> Response {
    html_response(reader, status, title, "", body)
}

/// A page with a card form.
pub(super) fn card_page(
    reader: Reader,
    status: StatusCode,
    title: &str,
    body: &Markup,
    tokenization_config: &CardTokenizationConfig,
) -> Response {
    let scripts = tokenization_config.pay_scripts("../../elements/");
    let mut response = html_response(reader, status, title, &scripts, body);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy(Some(tokenization_config)));
    response
}

fn html_response(reader: Reader, status: StatusCode, title: &str, scripts: &str, body: &Markup) -> Response {
    (status, HTML, document(reader.language, title, &STYLE, scripts, &html! { main { (body) } })).into_response()
}

/// The headers of every page.
pub(super) fn set_page_headers(headers: &mut HeaderMap) {
    set_private_headers(headers);
    headers.entry(CONTENT_SECURITY_POLICY).or_insert_with(|| POLICY.clone());
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_loads_nothing() {
        for loaded in ["@import", "url(", "</", "\\"] {
            assert!(!STYLE.text.contains(loaded), "{loaded}");
        }
        assert!(POLICY.to_str().expect("text").starts_with("default-src 'none'; style-src 'sha256-"));
    }
}
