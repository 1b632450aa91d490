//! A mail server that does what a test says, and keeps what it received.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A local mail server. Each command is answered with the next reply that is for it, and then with 250.
#[derive(Clone, Debug)]
pub struct MailServer {
    /// `smtp://127.0.0.1:…`
    pub url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    replies: Vec<(String, String)>,
    received: Vec<String>,
    commands: Vec<String>,
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
        let server = Self { url, state };
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

    /// The messages that it has accepted.
    pub fn received(&self) -> Vec<String> {
        self.with(|state| state.received.clone())
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
            None => "250 fine".to_owned(),
        })
    }

    async fn serve(&self, stream: TcpStream) -> Result<()> {
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        write.write_all(b"220 test\r\n").await?;
        while let Some(line) = lines.next_line().await? {
            let command = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
            self.with(|state| state.commands.push(command.clone()));
            let reply = match command.as_str() {
                "DATA" => {
                    write.write_all(b"354 go on\r\n").await?;
                    let mut message = String::new();
                    while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                        message.push_str(&line);
                        message.push('\n');
                    }
                    let reply = self.reply(END);
                    if !reply.starts_with(['4', '5']) {
                        self.with(|state| state.received.push(message));
                    }
                    reply
                }
                "QUIT" => "221 bye".to_owned(),
                command => self.reply(command),
            };
            match reply.as_str() {
                CLOSE => return Ok(()),
                HANG => pending::<()>().await,
                reply => write.write_all(format!("{reply}\r\n").as_bytes()).await?,
            }
        }
        Ok(())
    }
}
