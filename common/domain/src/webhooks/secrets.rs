//! Signing secrets: `whsec_` and the base64 of random bytes, as Standard Webhooks specifies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::signature::SECRET_PREFIX;
use foundation::crypto::{KeyRing, Secret};
use foundation::id::WebhookEndpointId;

const BYTES: usize = 32;

/// A new secret, including the prefix.
pub(super) fn generate() -> Secret<String> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    Secret::new(format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes)))
}

/// Encrypts the secret for the endpoint's row.
pub(super) fn seal(encryption: &KeyRing, secret: &Secret<String>, endpoint: WebhookEndpointId) -> Vec<u8> {
    encryption.seal(secret.expose(), &endpoint.to_string())
}
