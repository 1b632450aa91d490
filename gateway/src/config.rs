//! The gateway's environment variables. Each is read once, at start.

use std::net::SocketAddr;
use std::time::Duration;

use foundation::config::{
    ConfigError, INVALID_KEY, INVALID_KEYS, INVALID_URL, http_url, listed, number_or, optional, parsed, rate,
};
use foundation::crypto::{EncryptionKey, Pepper, Secret};
use mail::Mailer;

use crate::cards::KeyRing;
use crate::http::rate_limits::Rates;

/// `GATEWAY_BIND`: the address that merchants and browsers connect to.
///
/// # Errors
/// It is missing or not `host:port`.
pub fn bind() -> Result<SocketAddr, ConfigError> {
    parsed("GATEWAY_BIND", "is not an address such as 0.0.0.0:8090", |text| text.parse().ok())
}

/// `GATEWAY_PUBLIC_URL`: the public base URL of this service, without a trailing slash.
///
/// # Errors
/// It is missing or does not begin with http:// or https://.
pub fn public_url() -> Result<String, ConfigError> {
    parsed("GATEWAY_PUBLIC_URL", INVALID_URL, http_url)
}

/// `GATEWAY_DATABASE_URL`: the database, with the gateway's role; defaults to `DATABASE_URL`.
///
/// # Errors
/// Neither is set.
pub fn database_url() -> Result<Secret<String>, ConfigError> {
    role_url()?.map_or_else(foundation::config::database_url, Ok)
}

/// `GATEWAY_DATABASE_URL` alone: names the role to which `gateway migrate` grants access.
///
/// # Errors
/// It is set twice, or its file cannot be read.
pub fn role_url() -> Result<Option<Secret<String>>, ConfigError> {
    Ok(optional("GATEWAY_DATABASE_URL")?.map(Secret::new))
}

/// `GATEWAY_CARD_KEY`: 64 hexadecimal digits that encrypt card numbers and secret keys at rest;
/// `GATEWAY_OLD_CARD_KEYS`: earlier keys, separated by commas, that only decrypt.
///
/// # Errors
/// The first is missing, or any is malformed.
pub fn card_keys() -> Result<KeyRing, ConfigError> {
    let current = parsed("GATEWAY_CARD_KEY", INVALID_KEY, EncryptionKey::from_hex)?;
    Ok(KeyRing::new(current, listed("GATEWAY_OLD_CARD_KEYS", INVALID_KEYS, EncryptionKey::from_hex)?))
}

/// `GATEWAY_PEPPER`: 64 hexadecimal digits for the keyed hashes of API keys, proxy numbers and card fingerprints.
///
/// # Errors
/// It is missing or malformed.
pub fn pepper() -> Result<Pepper, ConfigError> {
    parsed("GATEWAY_PEPPER", INVALID_KEY, Pepper::from_hex)
}

/// `GATEWAY_ACQUIRER_DELAY_MS`: how long the simulated acquirer takes, 0 by default. Half of it passes before it
/// records the request and half before it responds.
///
/// # Errors
/// It is not a number.
pub fn acquirer_delay() -> Result<Duration, ConfigError> {
    number_or("GATEWAY_ACQUIRER_DELAY_MS", 0).map(Duration::from_millis)
}

/// `GATEWAY_PUBLIC_RATE`: browser requests per second from one address, 20 by default. `GATEWAY_FAILURE_RATE`: failed
/// attempts per second from one address, 10 by default. `GATEWAY_USER_FAILURE_RATE`: failed attempts per minute for one
/// user name from any address, 60 by default.
///
/// # Errors
/// One of them is not a number of 1 or more.
pub fn rates() -> Result<Rates, ConfigError> {
    Ok(Rates {
        browsers: rate("GATEWAY_PUBLIC_RATE", 20)?,
        failures: rate("GATEWAY_FAILURE_RATE", 10)?,
        user_failures: rate("GATEWAY_USER_FAILURE_RATE", 60)?,
    })
}

/// How receipts are sent: by `GATEWAY_SMTP_URL` or into `GATEWAY_MAIL_FOLDER`, from `GATEWAY_MAIL_FROM`, with
/// `GATEWAY_MAIL_BOUNCES` as the sender of the envelope; `None` without a server and a folder.
///
/// # Errors
/// As [`mail::mailer`].
pub fn mailer() -> Result<Option<Mailer>, ConfigError> {
    mail::mailer(&mail::Variables {
        server: "GATEWAY_SMTP_URL",
        folder: "GATEWAY_MAIL_FOLDER",
        from: "GATEWAY_MAIL_FROM",
        bounces: "GATEWAY_MAIL_BOUNCES",
    })
}
