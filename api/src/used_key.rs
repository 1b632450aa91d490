//! The API key of a request, which may be revoked while the body arrives.

use std::sync::Arc;

use axum::extract::Request;
use domain::accounts::{AuthError, Keys};
use foundation::crypto::Secret;

/// The key that a request was authenticated with, as an extension.
#[derive(Clone)]
pub(crate) struct UsedKey {
    keys: Arc<Keys>,
    text: Secret<String>,
}

impl UsedKey {
    pub(crate) fn insert(keys: &Arc<Keys>, text: String, request: &mut Request) {
        request.extensions_mut().insert(Self { keys: Arc::clone(keys), text: Secret::new(text) });
    }

    /// Authenticates the key again, usually from the cache.
    ///
    /// # Errors
    /// As [`Keys::authenticate`].
    pub(crate) async fn check_again(&self) -> Result<(), AuthError> {
        self.keys.authenticate(self.text.expose()).await.map(drop)
    }
}
