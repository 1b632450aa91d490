//! The style sheet, the scripts and the icon.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;

/// Their addresses.
pub(crate) const STYLE: &str = "/assets/portal.css";
pub(crate) const SCRIPT: &str = "/assets/portal.js";
pub(crate) const PASSKEYS: &str = "/assets/passkeys.js";
pub(crate) const ICON: &str = "/assets/portal.svg";

pub(crate) async fn style() -> impl IntoResponse {
    file("text/css; charset=utf-8", include_str!("portal.css"))
}

pub(crate) async fn script() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("portal.js"))
}

pub(crate) async fn passkeys() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("passkeys.js"))
}

pub(crate) async fn icon() -> impl IntoResponse {
    file("image/svg+xml", include_str!("portal.svg"))
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")], text)
}
