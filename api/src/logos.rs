//! Logos of accounts, for payers' pages and e-mails. The URL has a random id, which each upload has another one of, and is the
//! same for everybody who sees the logo.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::IntoResponse as _;
use axum::routing::get;
use domain::accounts;
use foundation::id::LogoId;

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::path::Path;
use crate::request_layer::client_address;

const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_TYPE, "image/png"),
    // A day, after which nobody sees a logo that was removed.
    (CACHE_CONTROL, "public, max-age=86400"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // The policy of the picture when it is opened as a page.
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
];

pub(crate) fn router() -> Router<App> {
    Router::new().route("/logos/{file}", get(show))
}

/// The logo with this id. It counts for the client address, because it costs queries.
async fn show(State(app): State<App>, Path(file): Path<String>, request: Request) -> ApiResult {
    let client = client_address(&request);
    let decision = app.limits.acquire_logo(client).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision));
    }
    let unknown = || ApiError::no_route("no such logo");
    let id: LogoId = file.strip_suffix(".png").and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
    let account = accounts::owner_of_logo(&*app.db, id).await?.ok_or_else(unknown)?;
    let png = app.large_responses.logo((id, account), client, accounts::logo(&*app.db, id)).await?;
    Ok((HEADERS, png.ok_or_else(unknown)?).into_response())
}
