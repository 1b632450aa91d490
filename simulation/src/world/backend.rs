//! The server processes of Postgres.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::stream::has_arrived;
use crate::wire::postgres;

/// How long a statement may take before the simulator checks whether it waits for a lock.
const LOCK_CHECK: Duration = Duration::from_millis(1);

/// Where Postgres listens, and the user whom all connections log in as.
#[derive(Clone, Debug)]
pub struct Login {
    /// On 127.0.0.1.
    pub port: u16,
    /// A superuser.
    pub user: String,
    /// The user's.
    pub password: String,
}

/// A server process that the simulator is connected to.
#[derive(Debug)]
pub struct Backend {
    stream: TcpStream,
    received: Vec<u8>,
    parsed: postgres::Response,
    /// What it has sent during the login: the request for the password, and its parameters.
    pub(super) greeting: [Vec<u8>; 2],
    /// Its prepared statements, and how it has described those that this history has prepared.
    pub(super) prepared: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Backend {
    /// Connects with this startup packet, and logs in.
    ///
    /// # Errors
    /// If Postgres refuses the login.
    pub fn open(login: &Login, startup: &[u8]) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", login.port)).context("Postgres")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut backend = Self {
            stream,
            received: Vec::new(),
            parsed: postgres::Response::default(),
            greeting: Default::default(),
            prepared: BTreeMap::new(),
        };
        backend.greeting = [backend.call(startup)?, backend.call(&postgres::password(&login.password))?];
        ensure!(backend.parsed.pid.is_some(), "Postgres refuses the login");
        Ok(backend)
    }

    /// A connection of the simulator's own to `database`.
    ///
    /// # Errors
    /// If Postgres refuses the login.
    pub fn log_in(login: &Login, database: &str) -> Result<Self> {
        Self::open(login, &postgres::startup(&login.user, database))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn send(&mut self, request: &[u8]) -> Result<()> {
        self.received.clear();
        self.parsed.begin();
        self.stream.write_all(request).context("Postgres")
    }

    /// The response, or `None` if there is none after [`LOCK_CHECK`]. The server may close the connection instead.
    pub(super) fn response(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if !has_arrived(&self.stream, LOCK_CHECK) {
                return None;
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Some(std::mem::take(&mut self.received)),
                Ok(length) => self.received.extend(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
                Err(_) => return Some(std::mem::take(&mut self.received)),
            }
            if self.parsed.is_complete(&self.received) {
                return Some(std::mem::take(&mut self.received));
            }
        }
    }

    fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        self.send(request)?;
        loop {
            if let Some(response) = self.response() {
                ensure!(!response.is_empty(), "Postgres closed the connection");
                return Ok(response);
            }
        }
    }

    /// Runs statements with the simple protocol, and returns the first column of all rows.
    ///
    /// # Errors
    /// If the connection is broken, or a statement fails.
    pub fn query(&mut self, sql: &str) -> Result<Vec<String>> {
        let response = self.call(&postgres::query(sql))?;
        let error = postgres::messages(&response).find(|(kind, _)| *kind == b'E');
        ensure!(error.is_none(), "{sql}: {}", String::from_utf8_lossy(&response));
        Ok(postgres::first_column(&response))
    }

    /// `I` outside of a transaction, `T` in one, `E` in one that has failed.
    pub(super) fn status(&self) -> u8 {
        self.parsed.status
    }

    /// Reads which statements are prepared.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn read_prepared(&mut self) -> Result<()> {
        let names = self.query("SELECT name FROM pg_prepared_statements")?;
        self.prepared = names.into_iter().map(|name| (name.into_bytes(), None)).collect();
        Ok(())
    }

    /// Whether it waits for a lock. `observer` is another connection.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn waits_for_lock(&self, observer: &mut Self) -> Result<bool> {
        let blocking = observer.query(&format!("SELECT cardinality(pg_blocking_pids({}))", self.pid()))?;
        Ok(blocking.first().is_some_and(|count| count != "0"))
    }

    /// Stops or continues the process, which must be waiting for a lock.
    ///
    /// # Errors
    /// If it has ended.
    pub(super) fn freeze(&self, frozen: bool) -> Result<()> {
        self.signal(if frozen { libc::SIGSTOP } else { libc::SIGCONT })
    }

    /// Ends the transaction, and first the statement if it is frozen. Returns whether the process can be used again.
    ///
    /// # Errors
    /// If the process has ended unexpectedly.
    pub(super) fn reset(&mut self, frozen: bool) -> Result<bool> {
        if frozen {
            // Postgres cancels a statement on this signal.
            self.signal(libc::SIGINT)?;
            self.freeze(false)?;
            let response = loop {
                if let Some(response) = self.response() {
                    break response;
                }
            };
            if response.is_empty() {
                return Ok(false);
            }
        }
        if self.status() != b'I' {
            self.query("ROLLBACK")?;
        }
        Ok(true)
    }

    /// Whether its process computes or waits for a processor, and so for no lock.
    pub(super) fn is_runnable(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        // The state follows the name of the program, which is in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('R'))
    }

    fn pid(&self) -> u32 {
        self.parsed.pid.unwrap_or(0)
    }

    #[allow(unsafe_code)]
    fn signal(&self, signal: i32) -> Result<()> {
        let pid = self.pid().cast_signed();
        // SAFETY: has no effect on this process.
        ensure!(pid > 0 && unsafe { libc::kill(pid, signal) } == 0, "process {pid} of Postgres has ended");
        Ok(())
    }
}
