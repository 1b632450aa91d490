//! The public base URL of this service. Invoices and payment links contain it, in responses and in events, so every
//! process that writes events sets it once at startup.

use std::fmt;
use std::sync::OnceLock;

use url::{Host, Url};

static BASE: OnceLock<String> = OnceLock::new();

/// Sets the base URL. Only the first call has an effect.
pub fn set(base: String) {
    BASE.get_or_init(|| base);
}

/// The public URL of a path, which begins with a slash.
///
/// # Panics
/// If the base URL was not set, which is a bug in the startup of the process.
pub fn of(path: fmt::Arguments<'_>) -> String {
    let base = BASE.get().expect("processes that write events set PUBLIC_URL at startup");
    format!("{base}{path}")
}

/// Whether live accounts may use this base URL: https, or loopback, where traffic cannot be intercepted.
pub fn is_allowed_for_live(base: &str) -> bool {
    let Ok(url) = Url::parse(base) else { return false };
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_accounts_require_https_or_loopback() {
        for allowed in ["https://pay.example", "http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost:8080"] {
            assert!(is_allowed_for_live(allowed), "{allowed}");
        }
        for refused in
            ["http://pay.example", "http://10.0.0.1", "http://localhost.example", "http://127.0.0.1.example", ""]
        {
            assert!(!is_allowed_for_live(refused), "{refused}");
        }
    }
}
