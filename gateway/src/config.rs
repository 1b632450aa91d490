//! What the gateway is told by its environment. Every variable is read once, at start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use common::config::{ConfigError, NO_KEY, NO_KEYS, NO_URL, http_url, listed, number_or, optional, parsed, rate};
use common::crypto::{EncryptionKey, Pepper, Secret};
use lettre::message::Mailbox;
use url::Url;

use crate::cards::KeyRing;
use crate::http::rate_limits::Rates;
use crate::mail::Mailer;

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
    parsed("GATEWAY_PUBLIC_URL", NO_URL, http_url)
}

/// `GATEWAY_DATABASE_URL`: where Postgres is, as the role of the gateway; `DATABASE_URL` if not set.
///
/// # Errors
/// Neither is set.
pub fn database_url() -> Result<Secret<String>, ConfigError> {
    role_url()?.map_or_else(common::config::database_url, Ok)
}

/// `GATEWAY_DATABASE_URL` alone: whom `gateway migrate` lets in.
///
/// # Errors
/// It is given twice, or its file cannot be read.
pub fn role_url() -> Result<Option<Secret<String>>, ConfigError> {
    Ok(optional("GATEWAY_DATABASE_URL")?.map(Secret::new))
}

/// `GATEWAY_CARD_KEY`: 64 hexadecimal digits that encrypt card numbers and secret keys at rest; and `GATEWAY_OLD_CARD_KEYS`:
/// others, with commas between them, that only decrypt.
///
/// # Errors
/// The first is missing, or any is malformed.
pub fn card_keys() -> Result<KeyRing, ConfigError> {
    let current = parsed("GATEWAY_CARD_KEY", NO_KEY, EncryptionKey::from_hex)?;
    Ok(KeyRing::new(current, listed("GATEWAY_OLD_CARD_KEYS", NO_KEYS, EncryptionKey::from_hex)?))
}

/// `GATEWAY_PEPPER`: 64 hexadecimal digits under which API keys, proxy numbers and fingerprints of cards are hashed.
///
/// # Errors
/// It is missing or malformed.
pub fn pepper() -> Result<Pepper, ConfigError> {
    parsed("GATEWAY_PEPPER", NO_KEY, Pepper::from_hex)
}

/// `GATEWAY_ACQUIRER_DELAY_MS`: how long the simulated acquirer takes, 0 if not set. Half of it passes before it has booked
/// anything, and half before it answers.
///
/// # Errors
/// It is not a number.
pub fn acquirer_delay() -> Result<Duration, ConfigError> {
    number_or("GATEWAY_ACQUIRER_DELAY_MS", 0).map(Duration::from_millis)
}

/// `GATEWAY_PUBLIC_RATE`: requests a second that one address may send to what browsers use, 20 if not set. `GATEWAY_FAILURE_RATE`:
/// attempts a second of one address that may fail, 10 if not set. `GATEWAY_USER_FAILURE_RATE`: attempts a minute at one user name
/// that may fail, wherever they come from, 60 if not set.
///
/// # Errors
/// One of them is not a number from 1 on.
pub fn rates() -> Result<Rates, ConfigError> {
    Ok(Rates {
        browsers: rate("GATEWAY_PUBLIC_RATE", 20)?,
        failures: rate("GATEWAY_FAILURE_RATE", 10)?,
        user_failures: rate("GATEWAY_USER_FAILURE_RATE", 60)?,
    })
}

/// How receipts leave: `GATEWAY_SMTP_URL`, or `GATEWAY_MAIL_FOLDER`, from `GATEWAY_MAIL_FROM`; none if neither is set. An empty
/// variable is not set.
///
/// # Errors
/// Both are set, or one is malformed, or a password would go in clear, or the sender's address is missing.
pub fn mailer() -> Result<Option<Mailer>, ConfigError> {
    const URL: &str = "GATEWAY_SMTP_URL";
    let wrong = |problem| ConfigError { name: URL, problem };
    match (optional(URL)?, optional("GATEWAY_MAIL_FOLDER")?) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(wrong("is set beside GATEWAY_MAIL_FOLDER")),
        (None, Some(folder)) => Ok(Some(Mailer::folder(PathBuf::from(folder), mail_from()?))),
        (Some(url), None) if tells_a_password(&url) => Err(wrong("sends a password in clear: add ?tls=required")),
        (Some(url), None) => {
            let mailer = Mailer::smtp(&url, mail_from()?);
            mailer.map(Some).ok_or(wrong("is not a URL such as smtp://user:password@host:587?tls=required"))
        }
    }
}

fn mail_from() -> Result<Mailbox, ConfigError> {
    parsed("GATEWAY_MAIL_FROM", "is not an address such as Shop <shop@example.com>", |text| text.parse().ok())
}

/// Whether a URL would have its password sent where TLS is not sure.
fn tells_a_password(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        let safe = url.scheme() == "smtps" || url.query_pairs().any(|pair| pair == ("tls".into(), "required".into()));
        url.password().is_some() && !safe
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_go_by_tls_alone() {
        for (url, tells) in [
            ("smtp://mail.example.com", false),
            ("smtp://u:p@mail.example.com", true),
            ("smtp://u:p@mail.example.com?tls=opportunistic", true),
            ("smtp://u:p@mail.example.com:587?tls=required", false),
            ("smtps://u:p@mail.example.com", false),
        ] {
            assert_eq!(tells_a_password(url), tells, "{url}");
        }
    }
}
