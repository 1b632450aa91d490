//! A mail server that does what a test says, and keeps what it received.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A local mail server. Each command gets the next reply that is for it, and afterwards the usual one.
#[derive(Clone, Debug)]
pub struct MailServer {
    /// `smtp://127.0.0.1:…`
    pub url: String,
    state: Arc<Mutex<State>>,
    /// How many more of the held messages may arrive.
    admitted: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    replies: Vec<(String, String)>,
    received: Vec<String>,
    commands: Vec<String>,
    /// The recipient whose messages are held.
    held: Option<String>,
}

/// Instead of a reply: the server never replies.
pub const HANG: &str = "hang";
/// Instead of a reply: the server closes the connection.
pub const CLOSE: &str = "close";
/// The end of a message, as a command in a script. What is closed or hangs here was accepted.
pub const END: &str = ".";

impl MailServer {
    /// Starts with a script: pairs of a command, such as `RCPT` or [`END`], and the reply to it.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(script: &[(&str, &str)]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("smtp://{}", listener.local_addr()?);
        let replies = script.iter().map(|(command, reply)| ((*command).to_owned(), (*reply).to_owned())).collect();
        let state = Arc::new(Mutex::new(State { replies, ..State::default() }));
        let server = Self { url, state, admitted: Arc::new(Semaphore::new(0)) };
        let accepting = server.clone();
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = accepting.clone();
                tokio::spawn(async move { serving.serve(stream).await });
            }
        });
        Ok(server)
    }

    /// The messages that it has accepted, with the sender of the envelope as `Return-Path`.
    pub fn received(&self) -> Vec<String> {
        self.with(|state| state.received.clone())
    }

    /// From now on, `RCPT` with this address has no reply until [`Self::admit`].
    pub fn hold(&self, recipient: &str) {
        self.with(|state| state.held = Some(recipient.to_owned()));
    }

    /// Lets so many of the held messages arrive, the first ones first.
    pub fn admit(&self, count: usize) {
        self.admitted.add_permits(count);
    }

    /// The commands that it was sent.
    pub fn commands(&self) -> Vec<String> {
        self.with(|state| state.commands.clone())
    }

    fn with<T>(&self, read: impl FnOnce(&mut State) -> T) -> T {
        read(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The reply to a command.
    fn reply(&self, command: &str) -> String {
        self.with(|state| match state.replies.iter().position(|(of, _)| of == command) {
            Some(next) => state.replies.remove(next).1,
            None => match command {
                "DATA" => "354 go on".to_owned(),
                "QUIT" => "221 bye".to_owned(),
                _ => "250 fine".to_owned(),
            },
        })
    }

    fn holds(&self, command: &str, line: &str) -> bool {
        command == "RCPT" && self.with(|state| state.held.as_ref().is_some_and(|held| line.contains(held.as_str())))
    }

    async fn serve(&self, stream: TcpStream) -> Result<()> {
        let (read, mut write) = stream.into_split();
        let (mut lines, mut sender) = (BufReader::new(read).lines(), String::new());
        write.write_all(b"220 test\r\n").await?;
        while let Some(line) = lines.next_line().await? {
            let command = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
            self.with(|state| state.commands.push(command.clone()));
            if command == "MAIL" {
                sender = line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
            }
            if self.holds(&command, &line) {
                tokio::select! {
                    admitted = self.admitted.acquire() => admitted?.forget(),
                    // The client does not wait any more.
                    _ = lines.next_line() => return Ok(()),
                }
            }
            let mut reply = self.reply(&command);
            if command == "DATA" && reply.starts_with('3') {
                write.write_all(format!("{reply}\r\n").as_bytes()).await?;
                let mut message = format!("Return-Path: <{sender}>\n");
                while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                    message.push_str(&line);
                    message.push('\n');
                }
                reply = self.reply(END);
                if !reply.starts_with(['4', '5']) {
                    self.with(|state| state.received.push(message));
                }
            }
            match reply.as_str() {
                CLOSE => return Ok(()),
                HANG => pending::<()>().await,
                reply => write.write_all(format!("{reply}\r\n").as_bytes()).await?,
            }
        }
        Ok(())
    }
}
