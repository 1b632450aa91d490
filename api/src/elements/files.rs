//! The scripts. They are built into the binary, and a page names the version that it was made with, and its hash: a browser runs
//! nothing else in its place (`integrity`). What merchants' pages load is served under its version too, so that their hash of it
//! holds for as long as they like.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::RawQuery;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha384};

use crate::app::App;

const CARD: &str = include_str!("card.js");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// A script as it is served.
pub(crate) struct Script {
    name: &'static str,
    text: String,
    version: String,
    /// What `integrity` names it by.
    integrity: String,
    /// Whose pages may load it.
    readers: &'static str,
}

const SAME_ORIGIN: &str = "same-origin";
const ANY_ORIGIN: &str = "cross-origin";
/// The unversioned addresses change with each release.
const SHORT: &str = "public, max-age=300";
const NOT_KEPT: &str = "no-store";
const FOREVER: &str = "public, max-age=31536000, immutable";

/// Of payment pages.
pub(crate) static PAY: LazyLock<Script> =
    LazyLock::new(|| Script::new("pay.js", &[CARD, include_str!("pay.js")], SAME_ORIGIN));
/// Of the card field.
pub(super) static FIELD: LazyLock<Script> =
    LazyLock::new(|| Script::new("field.js", &[CARD, include_str!("field.js")], SAME_ORIGIN));
/// Of merchants' pages.
static V1: LazyLock<Script> = LazyLock::new(|| Script::new("v1.js", &[include_str!("v1.js")], ANY_ORIGIN));
/// The same in earlier releases, as `include_str!` of a copy in `former/`. Pages name these by their hashes, so none is ever
/// taken away: before v1.js changes, its copy comes here, and the new version into [`PUBLISHED`].
const FORMER_V1: [&str; 0] = [];

impl Script {
    fn new(name: &'static str, parts: &[&str], readers: &'static str) -> Self {
        let text = parts.concat();
        let version = Sha256::digest(&text)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let integrity = format!("sha384-{}", STANDARD.encode(Sha384::digest(&text)));
        Self { name, text, version, integrity, readers }
    }

    /// What a browser must find there.
    pub(crate) fn integrity(&self) -> &str {
        &self.integrity
    }

    /// Where this very version is; the folder is relative to whoever loads it.
    pub(crate) fn address(&self, folder: &str) -> String {
        format!("{folder}{}?v={}", self.name, self.version)
    }

    fn answer(&self, asked: &HeaderMap, kept: &'static str) -> Response {
        let tag = format!("\"{}\"", self.version);
        let known = asked.get_all(IF_NONE_MATCH).iter().any(|tags| {
            tags.to_str().is_ok_and(|tags| tags.split(',').any(|one| one.trim().trim_start_matches("W/") == tag))
        });
        let headers = [
            (CONTENT_TYPE, "text/javascript; charset=utf-8"),
            (CACHE_CONTROL, kept),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (RESOURCE_POLICY, self.readers),
            (ETAG, tag.as_str()),
        ];
        let mut response = match known {
            true => (StatusCode::NOT_MODIFIED, headers).into_response(),
            false => (headers, self.text.clone()).into_response(),
        };
        if self.readers == ANY_ORIGIN {
            // A browser compares a script of another origin with a hash only where it may read it.
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        }
        response
    }
}

/// Every version of v1.js, this one first.
fn versions_of_v1() -> impl Iterator<Item = Script> {
    let texts = [include_str!("v1.js")].into_iter().chain(FORMER_V1);
    texts.map(|text| Script::new("v1.js", &[text], ANY_ORIGIN))
}

/// A route for each, and for each version of what merchants' pages load.
pub(super) fn router() -> Router<App> {
    let router = [&PAY, &FIELD, &V1].into_iter().fold(Router::new(), |router, script| {
        // While releases are changed, a page of one may ask a process of the other. Its browser refuses what it gets, and must not
        // keep that for the version that it has asked for.
        let serve = async move |RawQuery(query): RawQuery, headers: HeaderMap| {
            let ours = format!("v={}", script.version);
            script.answer(&headers, if query.is_none_or(|query| query == ours) { SHORT } else { NOT_KEPT })
        };
        router.route(&format!("/elements/{}", script.name), get(serve))
    });
    versions_of_v1().map(Arc::new).fold(router, |router, script| {
        let path = format!("/elements/v1.{}.js", script.version);
        router.route(&path, get(async move |headers: HeaderMap| script.answer(&headers, FOREVER)))
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

    /// Versions that pages may name, the newest first; a row is added for each and none is taken away.
    const PUBLISHED: [&str; 1] = ["01074d59b555cf0c"];

    #[test]
    fn every_published_version_is_still_served() {
        let served: Vec<_> = versions_of_v1().map(|script| script.version).collect();
        assert_eq!(served, PUBLISHED, "v1.js has changed: keep its copy in FORMER_V1, and add the new version here");
    }
}
