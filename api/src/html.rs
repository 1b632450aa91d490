//! Building blocks of HTML pages: escaped text, inline styles, the document, and the headers of private pages.

use std::fmt;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

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
pub(crate) struct MerchantText<'a>(pub(crate) &'a str);

impl fmt::Display for MerchantText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", Text(self.0))
    }
}

/// A complete document. `script` is empty or a script element.
pub(crate) fn document(title: Text<'_>, style: &Style, script: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <title>{title}</title>\n<style>{}</style>\n{script}{body}</html>\n",
        style.text,
    )
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
}
