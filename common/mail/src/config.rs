//! Where a program sends its e-mails: the environment variables.

use std::path::PathBuf;

use foundation::config::{ConfigError, optional, parsed};
use lettre::address::Address;
use lettre::message::Mailbox;
use url::Url;

use crate::Mailer;

/// The names of a program's variables.
#[derive(Clone, Copy, Debug)]
pub struct Variables {
    /// The URL of a mail server.
    pub server: &'static str,
    /// A folder for e-mails instead.
    pub folder: &'static str,
    /// The sender.
    pub from: &'static str,
    /// The address that servers report undeliverable e-mails to; without it, the sender's.
    pub bounces: &'static str,
}

/// The mailer that these variables describe; `None` without a server and a folder. An empty variable counts as not set.
///
/// # Errors
/// Both are set, one is malformed, a password would be sent without TLS, or the sender's address is missing.
pub fn mailer(variables: &Variables) -> Result<Option<Mailer>, ConfigError> {
    let Variables { server, folder, from, bounces } = *variables;
    let wrong = |problem| ConfigError { name: server, problem };
    let from =
        || parsed(from, "is not an address such as Shop <shop@example.com>", |text| text.parse::<Mailbox>().ok());
    let mailer = match (optional(server)?, optional(folder)?) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(wrong("must not be set together with a folder for e-mails")),
        (None, Some(folder)) => Mailer::folder(PathBuf::from(folder), from()?),
        (Some(url), None) if sends_password_in_clear(&url) => {
            return Err(wrong("would send the password without TLS; add ?tls=required"));
        }
        (Some(url), None) => Mailer::smtp(&url, from()?)
            .ok_or(wrong("is not a URL such as smtp://user:password@host:587?tls=required"))?,
    };
    let malformed = ConfigError { name: bounces, problem: "is not an address such as bounces@example.com" };
    match optional(bounces)?.map(|address| address.parse::<Address>()) {
        None => Ok(Some(mailer)),
        Some(Ok(address)) => Ok(Some(mailer.with_bounces(address))),
        Some(Err(_)) => Err(malformed),
    }
}

/// Whether the URL has a password and does not guarantee TLS.
fn sends_password_in_clear(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        let safe = url.scheme() == "smtps" || url.query_pairs().any(|pair| pair == ("tls".into(), "required".into()));
        url.password().is_some() && !safe
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_sent_only_over_tls() {
        for (url, insecure) in [
            ("smtp://mail.example.com", false),
            ("smtp://u:p@mail.example.com", true),
            ("smtp://u:p@mail.example.com?tls=opportunistic", true),
            ("smtp://u:p@mail.example.com:587?tls=required", false),
            ("smtps://u:p@mail.example.com", false),
        ] {
            assert_eq!(sends_password_in_clear(url), insecure, "{url}");
        }
    }
}
