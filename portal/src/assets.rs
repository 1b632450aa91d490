//! The style sheet, at an address that changes with it.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;

/// Its address.
pub(crate) const PATH: &str = concat!("/assets/", env!("CARGO_PKG_VERSION"), "/portal.css");

pub(crate) async fn style() -> impl IntoResponse {
    let headers = [(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (headers, include_str!("portal.css"))
}
