//! Letters and how they leave: by SMTP, or into a folder where somebody can read them.

mod smtp;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::time::Timestamp;
use lettre::message::header::{ContentType, MIME_VERSION_1_0};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::extension::ClientId;
use smtp::Server;

/// Characters of a subject at most.
const MAX_SUBJECT: usize = 150;

/// Where letters go.
#[derive(Clone, Debug)]
enum Transport {
    Smtp(Server),
    Folder(PathBuf),
}

/// Who sends letters, and by which way. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mailer {
    from: Mailbox,
    transport: Transport,
}

/// What is to be sent.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The same when it is sent again, so that a second copy can be known for one.
    pub id: String,
    /// An address and nothing else.
    pub to: String,
    /// One line.
    pub subject: String,
    /// Plain text.
    pub text: String,
    /// When it was written.
    pub date: Timestamp,
}

/// A letter that did not leave. It says why without any address, so that it may be logged.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct NotSent {
    /// Whether it never will.
    pub for_good: bool,
    reason: String,
}

impl NotSent {
    fn for_good(reason: &str) -> Self {
        Self { for_good: true, reason: reason.to_owned() }
    }

    fn for_now(reason: &str) -> Self {
        Self { for_good: false, reason: reason.to_owned() }
    }
}

impl Mailer {
    /// One that speaks to a server; none if the URL is none that is understood. The server is not asked yet.
    pub fn smtp(url: &str, from: Mailbox) -> Option<Self> {
        let hello = ClientId::Domain(from.email.domain().to_owned());
        let server = Server::of_url(url, hello)?;
        Some(Self { from, transport: Transport::Smtp(server) })
    }

    /// One that puts each letter into a file of its own.
    pub const fn folder(folder: PathBuf, from: Mailbox) -> Self {
        Self { from, transport: Transport::Folder(folder) }
    }

    /// Sends a letter.
    ///
    /// # Errors
    /// It did not leave, or nobody knows.
    pub async fn send(&self, letter: &Letter) -> Result<(), NotSent> {
        let message = self.message(letter)?;
        match &self.transport {
            Transport::Smtp(server) => server.send(&message).await,
            Transport::Folder(folder) => {
                let (folder, name, bytes) = (folder.clone(), letter.id.clone(), message.formatted());
                let written = tokio::task::spawn_blocking(move || write(&folder, &name, &bytes)).await;
                let written = written.map_err(|_| NotSent::for_now("the writing was broken off"))?;
                written.map_err(|error| NotSent::for_now(&format!("the folder: {}", error.kind())))
            }
        }
    }

    fn message(&self, letter: &Letter) -> Result<Message, NotSent> {
        let address = letter.to.parse().map_err(|_| NotSent::for_good("no mail system takes the address"))?;
        let sent = u64::try_from(letter.date.as_millisecond()).unwrap_or_default();
        Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, address))
            .subject(one_line(&letter.subject, MAX_SUBJECT))
            .message_id(Some(format!("<{}@{}>", letter.id, self.from.email.domain())))
            .date(SystemTime::UNIX_EPOCH + Duration::from_millis(sent))
            .header(MIME_VERSION_1_0)
            .header(ContentType::TEXT_PLAIN)
            .body(letter.text.clone())
            .map_err(|_| NotSent::for_good("no letter can be made of it"))
    }
}

/// A text that stays on its line, whoever wrote it: no control characters, no separators of lines, and not too long.
pub fn one_line(text: &str, most: usize) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.chars().map(|c| if breaks(c) { ' ' } else { c }).take(most).collect()
}

/// Under its name at once or not at all, so that no reader sees half a letter.
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

    fn letter(to: &str, subject: &str, text: &str) -> Letter {
        let date = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let of = str::to_owned;
        Letter { id: of("01ABC-cardholder"), to: of(to), subject: of(subject), text: of(text), date }
    }

    fn printed(letter: &Letter) -> Result<String, NotSent> {
        let mailer = Mailer::folder(PathBuf::new(), "Shop <shop@example.com>".parse().expect("an address"));
        mailer.message(letter).map(|message| String::from_utf8(message.formatted()).expect("ASCII"))
    }

    /// The names of the headers, in lower case.
    fn headers(message: &str) -> Vec<String> {
        let (head, _) = message.split_once("\r\n\r\n").expect("a head");
        let lines = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
        lines.map(|line| line.split(':').next().unwrap_or_default().to_lowercase()).collect()
    }

    #[test]
    fn nothing_that_is_said_becomes_a_header() {
        let plain = headers(&printed(&letter("jane@example.com", "Receipt", "Hello")).expect("a message"));
        assert_eq!(plain.len(), 8, "{plain:?}");
        let evils =
            ["\r\nBcc: eve@example.com", "\nBcc: eve@example.com\n\nHi", "\r\n\r\nBcc: x", "\u{2028}Bcc: x", "\0"];
        for evil in evils {
            let subject = format!("Receipt from Sh\u{f6}p{evil}");
            let message = printed(&letter("jane@example.com", &subject, evil)).expect("a message");
            assert_eq!(headers(&message), plain, "{evil:?}");
            for to in [format!("jane@example.com{evil}"), format!("ja{evil}ne@example.com")] {
                assert!(printed(&letter(&to, "Receipt", "")).is_err_and(|error| error.for_good), "{to:?}");
            }
        }
        for nobody in ["", "jane", "jane@example.com, eve@example.com", "Jane <jane@example.com>", "a b@example.com"] {
            assert!(printed(&letter(nobody, "Receipt", "")).is_err_and(|error| error.for_good), "{nobody}");
        }
    }

    #[test]
    fn a_text_stays_on_its_line() {
        assert_eq!(one_line("a\r\nb\tc\u{2028}d", 100), "a  b c d");
        assert_eq!(one_line("\u{e9}\u{e9}\u{e9}", 2), "\u{e9}\u{e9}");
    }
}
