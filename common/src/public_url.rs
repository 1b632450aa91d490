//! How the outside names this service. It is part of what is told of invoices and links, in answers and in events, so every
//! process that writes events says it once, at start.

use std::fmt;
use std::sync::OnceLock;

use url::{Host, Url};

static BASE: OnceLock<String> = OnceLock::new();

/// Says it. What is said first holds.
pub fn set(base: String) {
    BASE.get_or_init(|| base);
}

/// The address of something of ours; the path begins with a slash.
///
/// # Panics
/// If it was never said: a bug that every start would show.
pub fn of(path: fmt::Arguments<'_>) -> String {
    #[cfg(test)]
    set("https://pay.example".to_owned());
    let base = BASE.get().expect("a process that writes events has read PUBLIC_URL at its start");
    format!("{base}{path}")
}

/// Whether live accounts may be reached at this address: by TLS, or on this machine alone, where nobody listens in between.
pub fn is_fit_for_live(base: &str) -> bool {
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
    fn live_accounts_are_reached_by_tls_or_on_this_machine() {
        for fit in ["https://pay.example", "http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost:8080"] {
            assert!(is_fit_for_live(fit), "{fit}");
        }
        for unfit in
            ["http://pay.example", "http://10.0.0.1", "http://localhost.example", "http://127.0.0.1.example", ""]
        {
            assert!(!is_fit_for_live(unfit), "{unfit}");
        }
    }
}
