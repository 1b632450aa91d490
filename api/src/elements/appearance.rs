//! How a card field looks in the merchant's page, by the query of its URL.

use axum::extract::Request;
use axum::http::header::ACCEPT_LANGUAGE;
use texts::Language;

/// The language and the colors of a card field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appearance {
    pub(super) language: Language,
    /// `light`, `dark`, or `auto` for that of the cardholder's device.
    pub(super) theme: &'static str,
}

impl Appearance {
    pub(super) fn of(request: &Request) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let value = |name: &str| {
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            pairs.find(|(found, _)| found == name).map(|(_, value)| value)
        };
        let theme = value("theme");
        let accepted = request.headers().get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        Self {
            language: Language::of_request(value("lang").as_deref(), accepted),
            theme: ["dark", "auto"].into_iter().find(|known| theme.as_deref() == Some(known)).unwrap_or("light"),
        }
    }
}
