//! Sends e-mails: by SMTP, or as files into a folder.

mod send_error;
mod smtp;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use foundation::time::Timestamp;
use lettre::message::header::{ContentType, MIME_VERSION_1_0};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::extension::ClientId;
use smtp::Server;

pub use send_error::SendError;

/// Maximum length of a subject in characters.
const MAX_SUBJECT: usize = 150;

#[derive(Clone, Debug)]
enum Transport {
    Smtp(Server),
    Folder(PathBuf),
}

/// Sends e-mails from one sender. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mailer {
    from: Mailbox,
    transport: Transport,
}

/// An e-mail to be sent.
#[derive(Clone, Debug)]
pub struct Email {
    /// Becomes the `Message-ID`. It stays the same when the e-mail is sent again, so that receivers can detect the
    /// copy.
    pub id: String,
    pub to: String,
    pub subject: String,
    /// Plain text.
    pub text: String,
    pub date: Timestamp,
}

impl Mailer {
    /// Sends through a server; `None` if the URL is not supported. Does not connect yet.
    pub fn smtp(url: &str, from: Mailbox) -> Option<Self> {
        let client_id = ClientId::Domain(from.email.domain().to_owned());
        let server = Server::of_url(url, client_id)?;
        Some(Self { from, transport: Transport::Smtp(server) })
    }

    /// Writes each e-mail into a file of its own.
    pub const fn folder(folder: PathBuf, from: Mailbox) -> Self {
        Self { from, transport: Transport::Folder(folder) }
    }

    /// Sends an e-mail.
    ///
    /// # Errors
    /// It was not sent, or the outcome is unknown.
    pub async fn send(&self, email: &Email) -> Result<(), SendError> {
        let message = self.message(email)?;
        match &self.transport {
            Transport::Smtp(server) => server.send(&message).await,
            Transport::Folder(folder) => {
                let (folder, name, bytes) = (folder.clone(), email.id.clone(), message.formatted());
                let written = tokio::task::spawn_blocking(move || write(&folder, &name, &bytes)).await;
                let written = written.map_err(|_| SendError::transient("writing the file was interrupted"))?;
                written
                    .map_err(|error| SendError::transient(&format!("cannot write into the folder: {}", error.kind())))
            }
        }
    }

    fn message(&self, email: &Email) -> Result<Message, SendError> {
        let address = email.to.parse().map_err(|_| SendError::permanent("the address is not valid"))?;
        let sent = u64::try_from(email.date.as_millisecond()).unwrap_or_default();
        Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, address))
            .subject(one_line(&email.subject, MAX_SUBJECT))
            .message_id(Some(format!("<{}@{}>", email.id, self.from.email.domain())))
            .date(SystemTime::UNIX_EPOCH + Duration::from_millis(sent))
            .header(MIME_VERSION_1_0)
            .header(ContentType::TEXT_PLAIN)
            .body(email.text.clone())
            .map_err(|_| SendError::permanent("the message cannot be built"))
    }
}

/// Makes a text safe for one line: replaces control characters and line separators, and limits its length.
pub fn one_line(text: &str, max: usize) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.chars().map(|c| if breaks(c) { ' ' } else { c }).take(max).collect()
}

/// Writes under a temporary name and renames, so that readers never see an incomplete file.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let new = folder.join(format!(".{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, folder.join(format!("{name}.eml")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn email(to: &str, subject: &str, text: &str) -> Email {
        let date = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let of = str::to_owned;
        Email { id: of("01ABC-cardholder"), to: of(to), subject: of(subject), text: of(text), date }
    }

    fn printed(email: &Email) -> Result<String, SendError> {
        let mailer = Mailer::folder(PathBuf::new(), "Shop <shop@example.com>".parse().expect("an address"));
        mailer.message(email).map(|message| String::from_utf8(message.formatted()).expect("ASCII"))
    }

    /// The names of the headers, in lower case.
    fn headers(message: &str) -> Vec<String> {
        let (head, _) = message.split_once("\r\n\r\n").expect("a head");
        let lines = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
        lines.map(|line| line.split(':').next().unwrap_or_default().to_lowercase()).collect()
    }

    #[test]
    fn content_cannot_inject_headers() {
        let plain = headers(&printed(&email("jane@example.com", "Receipt", "Hello")).expect("a message"));
        assert_eq!(plain.len(), 8, "{plain:?}");
        let injections =
            ["\r\nBcc: eve@example.com", "\nBcc: eve@example.com\n\nHi", "\r\n\r\nBcc: x", "\u{2028}Bcc: x", "\0"];
        for injection in injections {
            let subject = format!("Receipt from Sh\u{f6}p{injection}");
            let message = printed(&email("jane@example.com", &subject, injection)).expect("a message");
            assert_eq!(headers(&message), plain, "{injection:?}");
            for to in [format!("jane@example.com{injection}"), format!("ja{injection}ne@example.com")] {
                assert!(printed(&email(&to, "Receipt", "")).is_err_and(|error| error.permanent), "{to:?}");
            }
        }
        for invalid in ["", "jane", "jane@example.com, eve@example.com", "Jane <jane@example.com>", "a b@example.com"] {
            assert!(printed(&email(invalid, "Receipt", "")).is_err_and(|error| error.permanent), "{invalid}");
        }
    }

    #[test]
    fn one_line_replaces_line_breaks_and_limits_the_length() {
        assert_eq!(one_line("a\r\nb\tc\u{2028}d", 100), "a  b c d");
        assert_eq!(one_line("\u{e9}\u{e9}\u{e9}", 2), "\u{e9}\u{e9}");
    }
}
