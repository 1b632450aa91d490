//! The secret token in the URL of a page.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::error_page::ErrorPage;
use crate::error::ApiError;
use crate::path::Path;

/// Invalid UTF-8 and NUL, which Postgres cannot store, are a 404.
pub(super) struct Token(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Token {
    type Rejection = ErrorPage;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorPage> {
        let Path(token) = Path::<String>::from_request_parts(parts, state).await?;
        if token.contains('\0') { Err(ApiError::no_route("no such path").into()) } else { Ok(Self(token)) }
    }
}
