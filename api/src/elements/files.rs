//! The scripts. They are built into the binary, and a page names the version that it was made with.

use std::sync::LazyLock;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use crate::app::App;

const CARD: &str = include_str!("card.js");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// A script as it is served.
pub(crate) struct Script {
    name: &'static str,
    text: String,
    version: String,
    /// Whose pages may load it.
    readers: &'static str,
}

/// Of payment pages.
pub(crate) static PAY: LazyLock<Script> =
    LazyLock::new(|| Script::new("pay.js", &[CARD, include_str!("pay.js")], "same-origin"));
/// Of the card field.
pub(super) static FIELD: LazyLock<Script> =
    LazyLock::new(|| Script::new("field.js", &[CARD, include_str!("field.js")], "same-origin"));
/// Of merchants' pages.
static V1: LazyLock<Script> = LazyLock::new(|| Script::new("v1.js", &[include_str!("v1.js")], "cross-origin"));

impl Script {
    fn new(name: &'static str, parts: &[&str], readers: &'static str) -> Self {
        let text = parts.concat();
        let version = Sha256::digest(&text)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { name, text, version, readers }
    }

    /// Where this very version is; the folder is relative to whoever loads it.
    pub(crate) fn address(&self, folder: &str) -> String {
        format!("{folder}{}?v={}", self.name, self.version)
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", self.version);
        let known = asked.get_all(IF_NONE_MATCH).iter().any(|tags| {
            tags.to_str().is_ok_and(|tags| tags.split(',').any(|one| one.trim().trim_start_matches("W/") == tag))
        });
        let headers = [
            (CONTENT_TYPE, "text/javascript; charset=utf-8"),
            (CACHE_CONTROL, "public, max-age=300"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (RESOURCE_POLICY, self.readers),
            (ETAG, tag.as_str()),
        ];
        if known {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, self.text.clone()).into_response()
    }
}

/// A route for each.
pub(super) fn router() -> Router<App> {
    [&PAY, &FIELD, &V1].into_iter().fold(Router::new(), |router, script| {
        let serve = async move |headers: HeaderMap| script.answer(&headers);
        router.route(&format!("/elements/{}", script.name), get(serve))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_the_version_it_was_made_with() {
        let address = PAY.address("../../elements/");
        assert!(address.starts_with("../../elements/pay.js?v=") && address.len() == 40, "{address}");
        assert_ne!(PAY.version, FIELD.version);
    }
}
