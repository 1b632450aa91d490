//! Delivers a message to an SMTP server step by step, because the meaning of a refusal depends on the step: it concerns
//! either the recipient or this sender.

use std::error::Error as _;
use std::time::Duration;

use lettre::message::Message;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Tls, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, MailParameter};
use lettre::transport::smtp::response::{Response, Severity};
use lettre::transport::smtp::{Error, SMTP_PORT, SUBMISSION_PORT, SUBMISSIONS_PORT};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use url::Url;

use super::send_error::SendError;

/// A server that takes longer until it asks for the message has not accepted it.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait for the reply to the message, which the server may have accepted if there is none (RFC 5321 §4.5.3.2.6).
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait for `QUIT`. An accepted message stays accepted without it.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A mail server and the credentials for it.
#[derive(Clone, Debug)]
pub(super) struct Server {
    host: String,
    port: u16,
    tls: Tls,
    credentials: Option<Credentials>,
    client_id: ClientId,
    timeout: Duration,
    reply_timeout: Duration,
}

/// The steps of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Greeting, TLS and authentication.
    Connection,
    Sender,
    Recipient,
    Message,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Connection => "the connection or AUTH",
            Self::Sender => "MAIL",
            Self::Recipient => "RCPT",
            Self::Message => "DATA",
        }
    }
}

impl Server {
    /// From a URL such as `smtp://user:password@host:587?tls=required`; `None` for any other form.
    pub(super) fn of_url(url: &str, client_id: ClientId) -> Option<Self> {
        let url = Url::parse(url).ok()?;
        let host = url.host_str()?.to_owned();
        let tls = url.query_pairs().find(|(name, _)| name == "tls").map(|(_, value)| value.into_owned());
        let parameters = || TlsParameters::new(host.clone()).ok();
        let (port, tls) = match (url.scheme(), tls.as_deref()) {
            ("smtp", None) => (SMTP_PORT, Tls::None),
            ("smtp", Some("required")) => (SUBMISSION_PORT, Tls::Required(parameters()?)),
            ("smtp", Some("opportunistic")) => (SUBMISSION_PORT, Tls::Opportunistic(parameters()?)),
            ("smtps", _) => (SUBMISSIONS_PORT, Tls::Wrapper(parameters()?)),
            _ => return None,
        };
        let text = |part: &str| percent_decode_str(part).decode_utf8().ok().map(String::from);
        let credentials = match url.password() {
            Some(password) => Some(Credentials::new(text(url.username())?, text(password)?)),
            None => None,
        };
        let (timeout, reply_timeout) = (TIMEOUT, REPLY_TIMEOUT);
        Some(Self { port: url.port().unwrap_or(port), host, tls, credentials, client_id, timeout, reply_timeout })
    }

    /// Sends a message to its single recipient.
    pub(super) async fn send(&self, message: &Message) -> Result<(), SendError> {
        let slow = || SendError::transient("the server did not respond in time");
        let announced = timeout(self.timeout, self.announce(message)).await;
        let mut connection = announced.unwrap_or_else(|_| Err(slow()))?;
        let accepted = timeout(self.reply_timeout, transmit(&mut connection, message)).await;
        let _ = timeout(QUIT_TIMEOUT, connection.abort()).await;
        match accepted {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                Err(SendError { unconfirmed: error.status().is_none(), ..send_error(Step::Message, &error) })
            }
            Err(_) => Err(SendError { unconfirmed: true, ..slow() }),
        }
    }

    /// A connection whose server waits for the message.
    async fn announce(&self, message: &Message) -> Result<AsyncSmtpConnection, SendError> {
        let mut connection = self.connect().await.map_err(|error| send_error(Step::Connection, &error))?;
        match announce(&mut connection, message).await {
            Ok(()) => Ok(connection),
            Err((step, error)) => {
                let _ = timeout(QUIT_TIMEOUT, connection.abort()).await;
                Err(send_error(step, &error))
            }
        }
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, Error> {
        let wrapped = if let Tls::Wrapper(parameters) = &self.tls { Some(parameters.clone()) } else { None };
        let server = (self.host.as_str(), self.port);
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(server, Some(self.timeout), &self.client_id, wrapped, None).await?;
        match &self.tls {
            Tls::Required(parameters) => connection.starttls(parameters.clone(), &self.client_id).await?,
            Tls::Opportunistic(parameters) if connection.can_starttls() => {
                connection.starttls(parameters.clone(), &self.client_id).await?;
            }
            Tls::None | Tls::Opportunistic(_) | Tls::Wrapper(_) => {}
        }
        if let Some(credentials) = &self.credentials {
            connection.auth(DEFAULT_MECHANISMS, credentials).await?;
        }
        Ok(connection)
    }
}

/// Announces a message, or returns the step at which that failed.
async fn announce(connection: &mut AsyncSmtpConnection, message: &Message) -> Result<(), (Step, Error)> {
    let envelope = message.envelope();
    let plain = envelope.to().iter().chain(envelope.from()).all(|address| address.to_string().is_ascii());
    let parameters = if plain { vec![] } else { vec![MailParameter::SmtpUtfEight] };
    let at = |step| move |error| (step, error);
    connection.command(Mail::new(envelope.from().cloned(), parameters)).await.map_err(at(Step::Sender))?;
    for to in envelope.to() {
        connection.command(Rcpt::new(to.clone(), vec![])).await.map_err(at(Step::Recipient))?;
    }
    let reply = connection.command(Data).await;
    after(connection, reply, Severity::PositiveCompletion).await.map_err(at(Step::Message))
}

async fn transmit(connection: &mut AsyncSmtpConnection, message: &Message) -> Result<(), Error> {
    let reply = connection.message(&message.formatted()).await;
    after(connection, reply, Severity::PositiveIntermediate).await
}

/// The first reply without this severity, which the last command cannot have: a server that answers a command twice has sent
/// it for an earlier one. Otherwise a reply to another command could be taken for that to the message.
async fn after(
    connection: &mut AsyncSmtpConnection,
    mut reply: Result<Response, Error>,
    earlier: Severity,
) -> Result<(), Error> {
    while reply.as_ref().is_ok_and(|response| response.code().severity == earlier) {
        reply = connection.read_response().await;
    }
    reply.map(drop)
}

/// Keeps only step and code: the server's text may contain an address.
fn send_error(step: Step, error: &Error) -> SendError {
    let code = error.status().map(u16::from);
    let text = error.source().map(ToString::to_string).unwrap_or_default();
    let reason = match code {
        Some(code) => format!("the server responded {code} to {}", step.name()),
        None if error.is_tls() => "TLS with the server failed".to_owned(),
        None if error.is_client() => "the server lacks a required feature".to_owned(),
        None if error.is_response() => format!("the server sent an invalid response to {}", step.name()),
        None => format!("the connection failed or was closed at {}", step.name()),
    };
    SendError { permanent: code.is_some_and(|code| is_final(step, code, &text)), unconfirmed: false, reason }
}

/// Only a refusal of the recipient or the message is permanent. A wrong password or sender is a configuration error
/// that the operator can fix (RFC 4954, section 6). Codes 55x concern the mail system, other second digits the protocol
/// (RFC 5321, section 4.2.1). A recipient can also be refused because this client may not relay through the server,
/// which the enhanced code 5.7 indicates (RFC 3463, section 3.8).
fn is_final(step: Step, code: u16, text: &str) -> bool {
    let of_mail = (550..560).contains(&code);
    match step {
        Step::Connection | Step::Sender => false,
        Step::Recipient => of_mail && !text.starts_with("5.7."),
        Step::Message => of_mail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::mail_server::{CLOSE, END, HANG, MailServer};

    fn client_id() -> ClientId {
        ClientId::Domain("test.example".to_owned())
    }

    fn message() -> Message {
        let builder = Message::builder().from("shop@example.com".parse().expect("an address"));
        builder.to("jane@customer.example".parse().expect("an address")).body("Hello".to_owned()).expect("a message")
    }

    /// The result of a message to a server that sends `reply` to `command` and accepts everything else.
    async fn sent(command: &str, reply: &str) -> Result<(), SendError> {
        let script = [(command, reply), ("EHLO", "250-test\r\n250 AUTH PLAIN LOGIN"), ("AUTH", "235 welcome")];
        let server = MailServer::start(&script).await.expect("a port");
        // Without TLS: the URL of the configuration would not allow a password here.
        let credentials = Some(Credentials::new("shop".to_owned(), "hunter2".to_owned()));
        let server = Server { credentials, ..Server::of_url(&server.url, client_id()).expect("a URL") };
        server.send(&message()).await
    }

    #[tokio::test]
    async fn only_refusals_of_recipient_or_message_are_permanent() {
        assert!(sent("NOOP", "").await.is_ok());
        for (command, reply, permanent, expected) in [
            ("EHLO", "550 5.7.1 your address is listed", false, "550"),
            ("AUTH", "535 5.7.8 wrong password of <shop@customer.example>", false, "535 to the connection or AUTH"),
            ("AUTH", "534 5.7.9 too weak", false, "534"),
            ("AUTH", "454 4.7.0 later", false, "454"),
            ("MAIL", "530 5.7.0 authenticate first", false, "530 to MAIL"),
            ("MAIL", "550 5.1.8 <shop@customer.example> is no sender here", false, "550 to MAIL"),
            ("MAIL", "553 5.7.1 not your address", false, "553"),
            ("RCPT", "450 4.2.1 busy", false, "450 to RCPT"),
            ("RCPT", "421 4.3.2 bye", false, "421"),
            ("RCPT", "503 5.5.1 MAIL first", false, "503"),
            ("RCPT", "530 5.7.0 authenticate first", false, "530"),
            ("RCPT", "554 5.7.1 <jane@customer.example>: Relay access denied", false, "554"),
            ("RCPT", "550 5.1.1 <jane@customer.example>: Recipient address rejected", true, "550 to RCPT"),
            ("RCPT", "550 no such user", true, "550"),
            ("RCPT", "553 5.1.3 bad address", true, "553"),
            ("DATA", "451 4.3.0 later", false, "451 to DATA"),
            ("DATA", "503 5.5.1 RCPT first", false, "503"),
            ("DATA", "554 5.5.1 no", true, "554"),
            (END, "552 5.3.4 too large", true, "552 to DATA"),
            (END, "554 5.7.1 spam, jane@customer.example", true, "554"),
            (END, "452 4.3.1 disk full", false, "452"),
            (END, "nonsense of customer.example", false, "invalid response"),
        ] {
            let error = sent(command, reply).await.expect_err(reply);
            let text = format!("{error} {error:?}");
            assert_eq!(error.permanent, permanent, "{command}: {reply}");
            assert!(text.contains(expected) && !text.contains("customer.example"), "{command}: {reply}: {text}");
        }
    }

    /// A server without TLS and credentials.
    async fn scripted(script: &[(&str, &str)]) -> (MailServer, Server) {
        let mail_server = MailServer::start(script).await.expect("a port");
        let server = Server::of_url(&mail_server.url, client_id()).expect("a URL");
        (mail_server, server)
    }

    #[tokio::test]
    async fn a_server_that_answers_a_command_twice_gets_each_message_once() {
        let fine = "250 fine\r\n250 fine";
        for (command, twice) in
            [("EHLO", "250-test\r\n250 HELP\r\n250 fine"), ("MAIL", fine), ("RCPT", fine), ("DATA", "354 go\r\n354 go")]
        {
            let (mail_server, server) = scripted(&[(command, twice), (END, "452 4.3.1 disk full")]).await;
            let error = server.send(&message()).await.expect_err(command);
            assert!(!error.permanent && !error.unconfirmed, "{command}: {error}");
            assert_eq!(error.to_string(), "the server responded 452 to DATA", "{command}");
            assert!(mail_server.received().is_empty(), "{command}");
            let (mail_server, server) = scripted(&[(command, twice)]).await;
            server.send(&message()).await.expect(command);
            assert_eq!(mail_server.received().len(), 1, "{command}");
        }
        let (mail_server, server) = scripted(&[(END, fine)]).await;
        server.send(&message()).await.expect("sent");
        assert_eq!(mail_server.received().len(), 1);
    }

    /// Fails unless a message to a server that sends `reply` to `command` fails, for now.
    async fn assert_fails(command: &str, reply: &str, unconfirmed: bool) {
        let (_mail_server, server) = scripted(&[(command, reply)]).await;
        let timeout = if reply == HANG { Duration::from_secs(3) } else { TIMEOUT };
        let error = Server { timeout, reply_timeout: timeout, ..server }.send(&message()).await.expect_err(command);
        assert_eq!((error.permanent, error.unconfirmed), (false, unconfirmed), "{command}, {reply}: {error}");
    }

    #[tokio::test]
    async fn only_a_message_without_a_reply_may_have_arrived() {
        for (command, reply, unconfirmed) in [
            ("MAIL", CLOSE, false),
            ("DATA", CLOSE, false),
            (END, CLOSE, true),
            (END, "nonsense", true),
            (END, "452 4.3.1 disk full", false),
        ] {
            assert_fails(command, reply, unconfirmed).await;
        }
        tokio::join!(
            assert_fails("EHLO", HANG, false),
            assert_fails("RCPT", HANG, false),
            assert_fails("DATA", HANG, false),
            assert_fails(END, HANG, true),
        );
    }

    #[test]
    fn server_urls_are_parsed() {
        let read = |url: &str| Server::of_url(url, client_id());
        for (url, host, port) in [
            ("smtp://localhost:2525", "localhost", 2525),
            ("smtp://mail.example.com", "mail.example.com", 25),
            ("smtp://u:p@mail.example.com?tls=required", "mail.example.com", 587),
            ("smtp://mail.example.com:26?tls=opportunistic", "mail.example.com", 26),
            ("smtps://u:p@mail.example.com", "mail.example.com", 465),
        ] {
            let server = read(url).expect(url);
            assert_eq!((server.host.as_str(), server.port), (host, port), "{url}");
            assert_eq!(server.credentials.is_some(), url.contains("u:p"), "{url}");
            assert_eq!(matches!(server.tls, Tls::None), !url.contains("tls=") && !url.contains("smtps"), "{url}");
        }
        let odd = read("smtps://a%40b:p%2B%2F+c@mail.example.com").expect("a server").credentials;
        assert_eq!(odd, Some(Credentials::new("a@b".to_owned(), "p+/+c".to_owned())));
        for bad in ["", "mail.example.com", "http://mail.example.com", "smtp://mail.example.com?tls=maybe", "smtp:x"] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
