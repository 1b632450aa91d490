//! What every page is made of: text that is always escaped, the frame, and what a browser may do with it.

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

const STYLE: &str = include_str!("page.css");

/// The one style within, a form that posts to us, and nothing else: no script, no frame around it, nobody else's server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("base64 and words are a header's characters")
});

/// Text as a merchant or anyone else wrote it. It is escaped wherever it is printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a>(pub(super) &'a str);

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

/// A text of the merchant's within a page. What it says of directions ends with it, so it turns no amount around.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", Text(self.0))
    }
}

/// A whole page.
pub(super) fn page(status: StatusCode, title: Text<'_>, body: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<main>\n{body}</main>\n</html>\n"
    );
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
}

/// What goes with every answer, whatever it is.
pub(super) fn shield(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    for (name, value) in [
        (X_FRAME_OPTIONS, "DENY"),
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
    fn text_is_escaped_whatever_it_is() {
        for (text, escaped) in [
            ("", ""),
            ("é 漢", "é 漢"),
            ("<script>alert('x')</script>", "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"),
            ("&amp;\"", "&amp;amp;&quot;"),
            ("a&b<c>d", "a&amp;b&lt;c&gt;d"),
            ("<<>>", "&lt;&lt;&gt;&gt;"),
        ] {
            assert_eq!(Text(text).to_string(), escaped);
            assert_eq!(Quoted(text).to_string(), format!("<bdi>{escaped}</bdi>"));
        }
    }

    #[test]
    fn the_style_is_ours_alone() {
        for loaded in ["@import", "url(", "</", "\\"] {
            assert!(!STYLE.contains(loaded), "{loaded}");
        }
        assert!(POLICY.to_str().expect("text").starts_with("default-src 'none'; style-src 'sha256-"));
    }
}
