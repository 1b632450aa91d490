//! Signing secrets: `whsec_` and the base64 of random bytes, as Standard Webhooks specifies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::signature::SECRET_PREFIX;
use foundation::crypto::{Place, Secret};
use foundation::id::{AccountId, WebhookEndpointId};

const BYTES: usize = 32;

/// A new secret, including the prefix.
pub(super) fn generate() -> Secret<String> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    Secret::new(format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes)))
}

/// Where the secret of an endpoint is stored.
pub fn secret_place(account: AccountId, endpoint: WebhookEndpointId) -> Place {
    Place::new("webhook_endpoints.secret", account, endpoint)
}

/// Where the secret is stored that a rotation has replaced.
pub fn previous_secret_place(account: AccountId, endpoint: WebhookEndpointId) -> Place {
    Place::new("webhook_endpoints.previous_secret", account, endpoint)
}
