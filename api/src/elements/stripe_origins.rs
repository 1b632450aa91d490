//! Where browsers reach Stripe, for the Content-Security-Policy and the script.

use url::Url;

/// Where browsers reach Stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StripeOrigins {
    /// The origin of its script.
    pub(super) script: String,
    /// The origins of what its script loads, as sources of a Content-Security-Policy.
    pub(super) parts: String,
    pub(super) api: String,
    /// The origin of its challenges.
    pub(super) challenges: String,
}

impl StripeOrigins {
    /// Stripe's own (docs.stripe.com/security/guide, Content Security Policy), or those of another server at this URL.
    pub(crate) fn new(other: Option<&str>) -> Self {
        let other = other.and_then(|url| Url::parse(url).ok()).map(|url| url.origin().ascii_serialization());
        let or = |own: &str| other.clone().unwrap_or_else(|| own.to_owned());
        Self {
            script: or("https://js.stripe.com"),
            parts: or("https://js.stripe.com https://*.js.stripe.com"),
            api: or("https://api.stripe.com"),
            challenges: or("https://hooks.stripe.com"),
        }
    }
}
