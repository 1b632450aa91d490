//! Building blocks of pages: escaped text, the document, and the security headers.

use std::fmt;
use std::sync::LazyLock;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::elements::{CardFieldConfig, INPUTS_STYLE, PAY, Script};

pub(crate) const HTML: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "text/html; charset=utf-8")];

static STYLE: LazyLock<Style> = LazyLock::new(|| Style::new(&[include_str!("page.css"), INPUTS_STYLE]));

/// Allows the inline style and a form that posts to this service; no script, no framing, no other server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| policy(None));

/// An inline style, which the Content-Security-Policy allows by its hash.
pub(crate) struct Style {
    text: String,
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

/// With a `card_field_config`, also allows the script and the server that it sends the card to. The challenge is on
/// that server too, and browsers apply `form-action` to the redirect after a form post.
fn policy(card_field_config: Option<&CardFieldConfig>) -> HeaderValue {
    let gateway =
        card_field_config.and_then(CardFieldConfig::origin).map(|origin| format!(" {origin}")).unwrap_or_default();
    let script = match card_field_config {
        Some(_) => format!("script-src 'self'; connect-src 'self'{gateway}; "),
        None => String::new(),
    };
    let policy = format!(
        "default-src 'none'; style-src {}; {script}form-action 'self'{gateway}; base-uri 'none'; \
         frame-ancestors 'none'",
        STYLE.source()
    );
    HeaderValue::try_from(policy).expect("base64, keywords and a URL's origin are valid in a header")
}

/// Untrusted text; escaped when displayed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let (plain, from) = rest.split_at(at);
            f.write_str(plain)?;
            f.write_str(match from.as_bytes()[0] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                _ => "&#39;",
            })?;
            rest = &from[1..];
        }
        f.write_str(rest)
    }
}

/// Text written by the merchant, isolated by `<bdi>` so that bidirectional characters in it cannot reorder an amount
/// after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MerchantText<'a>(pub(super) &'a str);

impl fmt::Display for MerchantText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", Text(self.0))
    }
}

/// A complete document. The script is relative to the page: its folder is given with it.
pub(crate) fn document(title: Text<'_>, style: &Style, script: Option<(&Script, &str)>, body: &str) -> String {
    let script = script.map(|(script, folder)| {
        let (url, integrity) = (script.url(folder), script.integrity());
        format!("<script src=\"{}\" integrity=\"{integrity}\" defer></script>\n", Text(&url))
    });
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <title>{title}</title>\n<style>{}</style>\n{}{body}</html>\n",
        style.text,
        script.unwrap_or_default(),
    )
}

pub(super) fn page(status: StatusCode, title: Text<'_>, body: &str) -> Response {
    (status, HTML, document(title, &STYLE, None, &format!("<main>\n{body}</main>\n"))).into_response()
}

/// A page with a card form.
pub(super) fn card_page(
    status: StatusCode,
    title: Text<'_>,
    body: &str,
    card_field_config: &CardFieldConfig,
) -> Response {
    let html = document(title, &STYLE, Some((&PAY, "../../elements/")), &format!("<main>\n{body}</main>\n"));
    let mut response = (status, HTML, html).into_response();
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy(Some(card_field_config)));
    response
}

/// The headers of every page.
pub(super) fn set_page_headers(headers: &mut HeaderMap) {
    set_private_headers(headers);
    headers.entry(CONTENT_SECURITY_POLICY).or_insert_with(|| POLICY.clone());
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
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
    fn any_text_is_escaped() {
        for (text, escaped) in [
            ("", ""),
            ("é 漢", "é 漢"),
            ("<script>alert('x')</script>", "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"),
            ("&amp;\"", "&amp;amp;&quot;"),
            ("a&b<c>d", "a&amp;b&lt;c&gt;d"),
            ("<<>>", "&lt;&lt;&gt;&gt;"),
        ] {
            assert_eq!(Text(text).to_string(), escaped);
            assert_eq!(MerchantText(text).to_string(), format!("<bdi>{escaped}</bdi>"));
        }
    }

    #[test]
    fn the_style_loads_nothing() {
        for loaded in ["@import", "url(", "</", "\\"] {
            assert!(!STYLE.text.contains(loaded), "{loaded}");
        }
        assert!(POLICY.to_str().expect("text").starts_with("default-src 'none'; style-src 'sha256-"));
    }
}
