//! The scripts, embedded in the binary. A page refers to its script by version and hash (`integrity`), so the browser
//! runs only that version. The script for merchants' pages also has a versioned URL, so that their `integrity` stays
//! valid.

use std::iter;
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
use maud::{Markup, html};
use serde_json::Value;
use sha2::{Digest, Sha256, Sha384};
use texts::Language;

use super::card_inputs::page_texts;
use crate::app::App;

const CARD: &str = include_str!("card.js");
const STRIPE: &str = include_str!("stripe.js");
const PAY_PAGE: &str = include_str!("pay.js");
const FIELD_PAGE: &str = include_str!("field.js");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

pub(super) struct Script {
    name: &'static str,
    text: String,
    version: String,
    /// The value of the `integrity` attribute.
    integrity: String,
    /// `Cross-Origin-Resource-Policy`: the pages that may load it.
    resource_policy: &'static str,
}

const SAME_ORIGIN: &str = "same-origin";
const ANY_ORIGIN: &str = "cross-origin";
/// For the unversioned URLs, whose content changes with releases.
const CACHE_BRIEFLY: &str = "public, max-age=300";
const NO_STORE: &str = "no-store";
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// For payment pages.
pub(super) static PAY: LazyLock<Script> = LazyLock::new(|| Script::new("pay.js", &[CARD, PAY_PAGE], SAME_ORIGIN));
pub(super) static PAY_STRIPE: LazyLock<Script> =
    LazyLock::new(|| Script::new("pay-stripe.js", &[STRIPE, PAY_PAGE], SAME_ORIGIN));
/// For the card field.
pub(super) static FIELD: LazyLock<Script> = LazyLock::new(|| Script::new("field.js", &[CARD, FIELD_PAGE], SAME_ORIGIN));
pub(super) static FIELD_STRIPE: LazyLock<Script> =
    LazyLock::new(|| Script::new("field-stripe.js", &[STRIPE, FIELD_PAGE], SAME_ORIGIN));
/// For merchants' pages.
static V1: LazyLock<Script> = LazyLock::new(|| Script::new("v1.js", &[&v1()], ANY_ORIGIN));
/// Earlier published versions of v1.js. Merchants' pages refer to them by hash, so none may ever be removed: before
/// v1.js or its texts change, save what `/elements/v1.js` returns to `former/`, add it here, and add the new version to
/// `PUBLISHED` below.
const FORMER_V1: [&str; 3] = [
    include_str!("former/v1.584d4b0b16cd0db5.js"),
    include_str!("former/v1.75202695c923a032.js"),
    include_str!("former/v1.1139bfcdf1c27335.js"),
];

/// The script for merchants' pages, with its texts in each language.
fn v1() -> String {
    let texts: serde_json::Map<_, _> =
        Language::iter().map(|language| (language.code().to_owned(), page_texts(language.texts()))).collect();
    include_str!("v1.js").replacen("const TEXTS = {};", &format!("const TEXTS = {};", Value::Object(texts)), 1)
}

impl Script {
    fn new(name: &'static str, parts: &[&str], resource_policy: &'static str) -> Self {
        let text = parts.concat();
        let version = Sha256::digest(&text)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let integrity = format!("sha384-{}", STANDARD.encode(Sha384::digest(&text)));
        Self { name, text, version, integrity, resource_policy }
    }

    /// The element that loads this version; `folder` is relative to the page.
    pub(super) fn element(&self, folder: &str) -> Markup {
        let Self { name, version, integrity, .. } = self;
        html! { script src={ (folder) (name) "?v=" (version) } integrity=(integrity) defer {} }
    }

    fn response(&self, request_headers: &HeaderMap, cache_control: &'static str) -> Response {
        let etag = format!("\"{}\"", self.version);
        let not_modified = request_headers.get_all(IF_NONE_MATCH).iter().any(|tags| {
            tags.to_str().is_ok_and(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag))
        });
        let headers = [
            (CONTENT_TYPE, "text/javascript; charset=utf-8"),
            (CACHE_CONTROL, cache_control),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (RESOURCE_POLICY, self.resource_policy),
            (ETAG, etag.as_str()),
        ];
        let mut response = match not_modified {
            true => (StatusCode::NOT_MODIFIED, headers).into_response(),
            false => (headers, self.text.clone()).into_response(),
        };
        if self.resource_policy == ANY_ORIGIN {
            // Browsers check `integrity` of a cross-origin script only if CORS allows reading it.
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        }
        response
    }
}

/// Every published version of v1.js, the current one first.
fn versions_of_v1() -> impl Iterator<Item = Script> {
    let former = FORMER_V1.into_iter().map(str::to_owned);
    iter::once(v1()).chain(former).map(|text| Script::new("v1.js", &[&text], ANY_ORIGIN))
}

/// A route for each script, and for each version of v1.js.
pub(super) fn router() -> Router<App> {
    let router = [&PAY, &PAY_STRIPE, &FIELD, &FIELD_STRIPE, &V1].into_iter().fold(Router::new(), |router, script| {
        // During a rolling release, a page of one version may request its script from a process of the other. Its
        // `integrity` fails then, and the browser must not cache that response under the requested version.
        let serve = async move |RawQuery(query): RawQuery, headers: HeaderMap| {
            let current = format!("v={}", script.version);
            let is_current = query.is_none_or(|query| query == current);
            script.response(&headers, if is_current { CACHE_BRIEFLY } else { NO_STORE })
        };
        router.route(&format!("/elements/{}", script.name), get(serve))
    });
    versions_of_v1().map(Arc::new).fold(router, |router, script| {
        let path = format!("/elements/v1.{}.js", script.version);
        router.route(&path, get(async move |headers: HeaderMap| script.response(&headers, IMMUTABLE)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_contains_the_version() {
        let element = PAY.element("../../elements/").into_string();
        let url = format!("<script src=\"../../elements/pay.js?v={}\" integrity=\"sha384-", PAY.version);
        assert!(element.starts_with(&url) && PAY.version.len() == 16, "{element}");
        assert_ne!(PAY.version, FIELD.version);
    }

    /// Versions that pages may refer to, newest first. Versions are only added, never removed.
    const PUBLISHED: [&str; 4] = ["dd9bf6d7f25b0f4e", "584d4b0b16cd0db5", "75202695c923a032", "1139bfcdf1c27335"];

    #[test]
    fn every_published_version_is_still_served() {
        let served: Vec<_> = versions_of_v1().map(|script| script.version).collect();
        assert_eq!(served, PUBLISHED, "v1.js has changed: add the former copy to FORMER_V1 and the new version here");
    }
}
