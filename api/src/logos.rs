//! Logos of accounts, for payers' pages and e-mails. The URL has the hash of the content, so that browsers need to load it
//! only once, and is the same for everybody who sees the logo.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::IntoResponse as _;
use axum::routing::get;
use domain::accounts;
use foundation::crypto::{is_hex, unhex};
use foundation::id::AccountId;

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::path::Path;
use crate::request_layer::client_address;

const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_TYPE, "image/png"),
    (CACHE_CONTROL, "public, max-age=31536000, immutable"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // Of the picture opened as a page.
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
];

pub(crate) fn router() -> Router<App> {
    Router::new().route("/logos/{account}/{file}", get(show))
}

/// The logo with this hash. It counts as a page of the client address, because it costs a query.
async fn show(State(app): State<App>, Path((account, file)): Path<(String, String)>, request: Request) -> ApiResult {
    let decision = app.limits.acquire_page(client_address(&request)).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision));
    }
    let unknown = || ApiError::no_route("no such logo");
    let account: AccountId = account.parse().map_err(|_| unknown())?;
    let hash = file.strip_suffix(".png").filter(|hash| is_hex(hash, 32)).and_then(unhex).ok_or_else(unknown)?;
    let png = accounts::logo(&*app.db, account, &hash).await?.ok_or_else(unknown)?;
    Ok((HEADERS, png).into_response())
}
