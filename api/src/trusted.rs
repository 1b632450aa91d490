//! What only a program of this process can send with a request: a caller that needs no key, and an expected version.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::accounts::Caller;

/// A caller that a program of this process has authenticated, which needs neither a key nor a signature. No client can
/// send it.
#[derive(Clone)]
pub(crate) struct Trusted(pub(crate) Arc<Caller>);

/// The version that an object must have to be changed, as an extension of a request; `None` if any may.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectedVersion(pub Option<i64>);

impl<S: Send + Sync> FromRequestParts<S> for ExpectedVersion {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or_default())
    }
}
