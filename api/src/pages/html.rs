//! What every page is made of: text that is always escaped, the frame, and what a browser may do with it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::LazyLock;

use axum::extract::{ConnectInfo, Request};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::elements::{INPUTS_STYLE, PAY, Script, Taker};

/// The header of what all of this is.
pub(crate) const HTML: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "text/html; charset=utf-8")];

static STYLE: LazyLock<Style> = LazyLock::new(|| Style::new(&[include_str!("page.css"), INPUTS_STYLE]));

/// The one style within, a form that posts to us, and nothing else: no script, no frame around it, nobody else's server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| policy(None));

/// A style that stands within its page, and that the page's policy knows by its hash.
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

    /// What a policy calls it.
    pub(crate) fn source(&self) -> String {
        format!("'sha256-{}'", self.hash)
    }
}

/// With a taker of cards: our script too, and the server that it gives the card to. That may also ask the cardholder, and a
/// browser that follows a form there wants to be told so.
fn policy(taker: Option<&Taker>) -> HeaderValue {
    let other = taker.and_then(Taker::origin).map(|origin| format!(" {origin}")).unwrap_or_default();
    let script = match taker {
        Some(_) => format!("script-src 'self'; connect-src 'self'{other}; "),
        None => String::new(),
    };
    let policy = format!(
        "default-src 'none'; style-src {}; {script}form-action 'self'{other}; base-uri 'none'; frame-ancestors 'none'",
        STYLE.source()
    );
    HeaderValue::try_from(policy).expect("base64, words and a URL's origin are a header's characters")
}

/// Text as a merchant or anyone else wrote it. It is escaped wherever it is printed.
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

/// A text of the merchant's within a page. What it says of directions ends with it, so it turns no amount around.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", Text(self.0))
    }
}

/// A whole document, perhaps with a script of ours that is in this folder, relative to the page.
pub(crate) fn document(title: Text<'_>, style: &Style, script: Option<(&Script, &str)>, body: &str) -> String {
    let script = script.map(|(script, folder)| {
        let (address, integrity) = (script.address(folder), script.integrity());
        format!("<script src=\"{}\" integrity=\"{integrity}\" defer></script>\n", Text(&address))
    });
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <title>{title}</title>\n<style>{}</style>\n{}{body}</html>\n",
        style.text,
        script.unwrap_or_default(),
    )
}

/// A whole page.
pub(super) fn page(status: StatusCode, title: Text<'_>, body: &str) -> Response {
    (status, HTML, document(title, &STYLE, None, &format!("<main>\n{body}</main>\n"))).into_response()
}

/// A page on which a card can be entered.
pub(super) fn card_page(status: StatusCode, title: Text<'_>, body: &str, taker: &Taker) -> Response {
    let html = document(title, &STYLE, Some((&PAY, "../../elements/")), &format!("<main>\n{body}</main>\n"));
    let mut response = (status, HTML, html).into_response();
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy(Some(taker)));
    response
}

/// What goes with every page, whatever it is.
pub(super) fn shield(headers: &mut HeaderMap) {
    quiet(headers);
    headers.entry(CONTENT_SECURITY_POLICY).or_insert_with(|| POLICY.clone());
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}

/// It is kept nowhere, found nowhere, and tells nobody where it was.
pub(crate) fn quiet(headers: &mut HeaderMap) {
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Where a request came from.
pub(crate) fn address_of(request: &Request) -> IpAddr {
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
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
            assert!(!STYLE.text.contains(loaded), "{loaded}");
        }
        assert!(POLICY.to_str().expect("text").starts_with("default-src 'none'; style-src 'sha256-"));
    }
}
