//! Sends e-mails: by SMTP, or as files into a folder.

mod config;
mod send_error;
mod smtp;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use foundation::time::Timestamp;
use lettre::address::{Address, Envelope};
use lettre::message::header::{ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0};
use lettre::message::{Mailbox, Message, MultiPart};
use lettre::transport::smtp::extension::ClientId;
use smtp::Server;

pub use config::{Variables, mailer};
pub use send_error::SendError;

/// Maximum length of a subject in characters.
const MAX_SUBJECT: usize = 150;
/// Maximum length of the name of a sender in characters.
const MAX_NAME: usize = 100;

#[derive(Clone, Debug)]
enum Transport {
    Smtp(Server),
    Folder(PathBuf),
}

/// Sends e-mails from one sender. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mailer {
    from: Mailbox,
    /// The sender of the envelope, if it is another one.
    bounces: Option<Address>,
    transport: Transport,
}

/// An e-mail to be sent.
#[derive(Clone, Debug)]
pub struct Email {
    /// Becomes the `Message-ID`. It stays the same when the e-mail is sent again, so that receivers can detect the
    /// copy.
    pub id: String,
    pub to: String,
    /// The name shown as the sender's, instead of the configured one.
    pub from_name: Option<String>,
    /// The address that replies go to, if it is not the sender's. Ignored unless it is an address.
    pub reply_to: Option<String>,
    pub subject: String,
    /// Plain text.
    pub text: String,
    /// The same as a page, for those who can show it.
    pub html: Option<String>,
    /// The URL where the recipient stops e-mails of this kind, by one POST (RFC 8058).
    pub unsubscribe: Option<String>,
    pub date: Timestamp,
}

impl Mailer {
    /// Sends through a server; `None` if the URL is not supported. Does not connect yet.
    pub fn smtp(url: &str, from: Mailbox) -> Option<Self> {
        let client_id = ClientId::Domain(from.email.domain().to_owned());
        let server = Server::of_url(url, client_id)?;
        Some(Self { from, bounces: None, transport: Transport::Smtp(server) })
    }

    /// Writes each e-mail into a file of its own.
    pub const fn folder(folder: PathBuf, from: Mailbox) -> Self {
        Self { from, bounces: None, transport: Transport::Folder(folder) }
    }

    /// Has undeliverable e-mails reported to this address.
    #[must_use]
    pub fn with_bounces(self, address: Address) -> Self {
        Self { bounces: Some(address), ..self }
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
        let address: Address = email.to.parse().map_err(|_| SendError::permanent("the address is not valid"))?;
        let sent = u64::try_from(email.date.as_millisecond()).unwrap_or_default();
        let from_name =
            email.from_name.as_ref().map(|name| one_line(name, MAX_NAME)).or_else(|| self.from.name.clone());
        let mut message = Message::builder()
            .from(Mailbox::new(from_name, self.from.email.clone()))
            .to(Mailbox::new(None, address.clone()))
            .subject(one_line(&email.subject, MAX_SUBJECT))
            .message_id(Some(format!("<{}@{}>", email.id, self.from.email.domain())))
            .date(SystemTime::UNIX_EPOCH + Duration::from_millis(sent))
            .header(MIME_VERSION_1_0);
        if let Some(address) = email.reply_to.as_ref().and_then(|address| address.parse().ok()) {
            message = message.reply_to(Mailbox::new(None, address));
        }
        if let Some(url) = &email.unsubscribe {
            let header = |name, value| HeaderValue::new(HeaderName::new_from_ascii_str(name), value);
            message = message.raw_header(header("List-Unsubscribe", format!("<{url}>")));
            let one_click = "List-Unsubscribe=One-Click".to_owned();
            message = message.raw_header(header("List-Unsubscribe-Post", one_click));
        }
        if let Some(bounces) = &self.bounces {
            let envelope = Envelope::new(Some(bounces.clone()), vec![address]);
            message = message.envelope(envelope.map_err(|_| SendError::permanent("the envelope cannot be built"))?);
        }
        let text = email.text.clone();
        let built = match &email.html {
            None => message.header(ContentType::TEXT_PLAIN).body(text),
            Some(html) => message.multipart(MultiPart::alternative_plain_html(text, html.clone())),
        };
        built.map_err(|_| SendError::permanent("the message cannot be built"))
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
        Email {
            id: of("01ABC-cardholder"),
            to: of(to),
            subject: of(subject),
            text: of(text),
            date,
            from_name: None,
            reply_to: None,
            html: None,
            unsubscribe: None,
        }
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
    fn names_replies_bounces_and_pages_go_where_they_belong() {
        let from = "Receipts <receipts@example.com>".parse().expect("an address");
        let bounces = "bounces@example.com".parse().expect("an address");
        let mailer = Mailer::folder(PathBuf::new(), from).with_bounces(bounces);
        let mut email = email("jane@example.com", "Invoice", "the text");
        email.from_name = Some("Caf\u{e9}, <eve@example.com>\r\nBcc: eve@example.com".to_owned());
        email.reply_to = Some("help@shop.example".to_owned());
        email.html = Some("<p>the page</p>".to_owned());
        let message = mailer.message(&email).expect("a message");
        assert_eq!(message.envelope().from().map(ToString::to_string).as_deref(), Some("bounces@example.com"));
        let printed = String::from_utf8(message.formatted()).expect("ASCII");
        let names = headers(&printed);
        assert!(!names.contains(&"bcc".to_owned()) && names.contains(&"reply-to".to_owned()), "{names:?}");
        assert!(printed.contains("<receipts@example.com>") && !printed.contains("<eve@example.com>"), "{printed}");
        assert!(printed.contains("the text") && printed.contains("<p>the page</p>"), "{printed}");
        // A contact that is no address is a telephone number or a URL.
        email.reply_to = Some("+49 30 123456".to_owned());
        let message = mailer.message(&email).expect("a message");
        assert!(!headers(&String::from_utf8(message.formatted()).expect("ASCII")).contains(&"reply-to".to_owned()));
    }

    #[test]
    fn one_line_replaces_line_breaks_and_limits_the_length() {
        assert_eq!(one_line("a\r\nb\tc\u{2028}d", 100), "a  b c d");
        assert_eq!(one_line("\u{e9}\u{e9}\u{e9}", 2), "\u{e9}\u{e9}");
    }
}
