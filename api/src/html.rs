//! Building blocks of HTML pages: the merchant's text, amounts, inline styles, the document, and the headers of private pages.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foundation::money::{Currency, Money};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use sha2::{Digest, Sha256};
use texts::Language;

pub(crate) const HTML: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "text/html; charset=utf-8")];

/// An inline style, which the Content-Security-Policy allows by its hash.
pub(crate) struct Style {
    pub(crate) text: String,
    hash: String,
}

impl Style {
    pub(crate) fn new(parts: &[&str]) -> Self {
        let text = parts.concat();
        let hash = STANDARD.encode(Sha256::digest(&text));
        Self { text, hash }
    }

    /// The source expression for `style-src`.
    pub(crate) fn source(&self) -> String {
        format!("'sha256-{}'", self.hash)
    }
}

/// Text written by the merchant, isolated by `<bdi>` so that bidirectional characters in it cannot reorder an amount
/// after it.
pub(crate) fn merchant_text(text: &str) -> Markup {
    html! { bdi { (text) } }
}

/// The placeholder for the text of the merchant in a sentence, until [`with_merchant_text`] replaces it.
pub(crate) const MERCHANT: &str = "\u{fffc}";

/// A sentence with the text of the merchant in place of [`MERCHANT`].
pub(crate) fn with_merchant_text(sentence: &str, text: &str) -> Markup {
    match sentence.split_once(MERCHANT) {
        Some((before, after)) => html! { (before) (merchant_text(text)) (after) },
        None => html! { (sentence) },
    }
}

/// Lengths of an amount in characters above which it is shown smaller.
const LONG: usize = 12;
const LONGEST: usize = 18;

/// An amount in the notation of a language. As HTML it is never broken across lines.
#[derive(Clone, Debug)]
pub(crate) struct Price(String);

impl Price {
    pub(crate) fn new(language: Language, minor: i64, currency: Currency) -> Self {
        Self(texts::price(language, Money { minor, currency }))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The class of an element that shows a long amount smaller, so that it fits into a line of a phone.
    pub(crate) fn size(&self) -> Option<&'static str> {
        match self.0.chars().count() {
            length if length > LONGEST => Some("longest"),
            length if length > LONG => Some("long"),
            _ => None,
        }
    }
}

impl Render for Price {
    fn render(&self) -> Markup {
        html! { span.amount { (self.0) } }
    }
}

/// A complete document.
pub(crate) fn document(language: Language, title: &str, style: &Style, scripts: &Markup, body: &Markup) -> String {
    let document = html! {
        (DOCTYPE)
        html lang=(language.code()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (title) }
                style { (PreEscaped(&style.text)) }
                (scripts)
            }
            body { (body) }
        }
    };
    document.into_string()
}

/// Prevents caching, indexing and referrers: the URL is a secret.
pub(crate) fn set_private_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_the_merchant_is_escaped_and_isolated() {
        let shown = with_merchant_text(&format!("To {MERCHANT}."), "<script>&\"").into_string();
        assert_eq!(shown, "To <bdi>&lt;script&gt;&amp;&quot;</bdi>.");
    }
}
