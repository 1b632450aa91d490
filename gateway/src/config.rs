//! What the gateway is told by its environment. Every variable is read once, at start.

use std::net::SocketAddr;
use std::time::Duration;

use common::config::{ConfigError, number_or, parsed};
use common::crypto::{EncryptionKey, Pepper};

/// `GATEWAY_BIND`: the address that merchants and browsers reach.
///
/// # Errors
/// It is missing or not `host:port`.
pub fn bind() -> Result<SocketAddr, ConfigError> {
    parsed("GATEWAY_BIND", "is not an address such as 0.0.0.0:8090", |text| text.parse().ok())
}

/// `GATEWAY_PUBLIC_URL`: how the outside world names this service, without a slash at the end.
///
/// # Errors
/// It is missing or does not begin with http:// or https://.
pub fn public_url() -> Result<String, ConfigError> {
    parsed("GATEWAY_PUBLIC_URL", "is not an http(s) URL", |text| {
        let known = text.starts_with("http://") || text.starts_with("https://");
        known.then(|| text.trim_end_matches('/').to_owned())
    })
}

/// `GATEWAY_CARD_KEY`: 64 hexadecimal digits that encrypt card numbers and secret keys at rest.
///
/// # Errors
/// It is missing or malformed.
pub fn card_key() -> Result<EncryptionKey, ConfigError> {
    parsed("GATEWAY_CARD_KEY", "is not 64 hexadecimal digits", EncryptionKey::from_hex)
}

/// `GATEWAY_PEPPER`: 64 hexadecimal digits under which API keys, proxy numbers and fingerprints of cards are hashed.
///
/// # Errors
/// It is missing or malformed.
pub fn pepper() -> Result<Pepper, ConfigError> {
    parsed("GATEWAY_PEPPER", "is not 64 hexadecimal digits", Pepper::from_hex)
}

/// `GATEWAY_ACQUIRER_DELAY_MS`: how long the simulated acquirer takes, 0 if not set. Half of it passes before it has booked
/// anything, and half before it answers.
///
/// # Errors
/// It is not a number.
pub fn acquirer_delay() -> Result<Duration, ConfigError> {
    number_or("GATEWAY_ACQUIRER_DELAY_MS", 0).map(Duration::from_millis)
}

/// `GATEWAY_PUBLIC_RATE`: requests a second that one address may send to what browsers use, 20 if not set; ten times as many at
/// once.
///
/// # Errors
/// It is not a number from 1 on.
pub fn public_rate() -> Result<u32, ConfigError> {
    const NAME: &str = "GATEWAY_PUBLIC_RATE";
    match number_or(NAME, 20)? {
        0 => Err(ConfigError { name: NAME, problem: "is not a number from 1 on" }),
        rate => Ok(rate),
    }
}
