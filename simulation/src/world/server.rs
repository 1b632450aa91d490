//! The simulator's connections to Postgres and Redis.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::clock;
use crate::wire::{postgres, redis};

/// How long a server may take before the simulator checks whether the statement waits for a lock.
const LOCK_CHECK: Duration = Duration::from_millis(1);

/// Reads whatever has arrived. Returns false at the end of the stream.
pub(super) fn read_available(stream: &mut impl Read, into: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 16 * 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => into.extend(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// Whether something can be read within `limit`.
#[allow(unsafe_code)]
fn has_arrived(stream: &TcpStream, limit: Duration) -> bool {
    let mut poll = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = libc::timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: i64::from(limit.subsec_nanos()) };
    // SAFETY: one valid entry, a valid time, no signal mask.
    unsafe { libc::ppoll(&raw mut poll, 1, &raw const limit, std::ptr::null()) > 0 }
}

/// The server's end of a connection to Postgres.
#[derive(Debug)]
pub struct PostgresServer {
    stream: TcpStream,
    started: bool,
    received: Vec<u8>,
    parsed: postgres::Response,
    /// The process id of the server's process.
    pub pid: u32,
}

impl PostgresServer {
    /// Connects; the client sends the startup packet.
    ///
    /// # Errors
    /// If the server does not accept.
    pub fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("Postgres")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, started: false, received: Vec::new(), parsed: postgres::Response::default(), pid: 0 })
    }

    /// The length of the first request in `bytes`.
    pub fn request(&self, bytes: &[u8]) -> Option<usize> {
        postgres::request(bytes, self.started)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, request: &[u8]) -> Result<()> {
        self.started = true;
        self.received.clear();
        self.parsed = postgres::Response { parsed: 0, ..self.parsed };
        self.stream.write_all(request).context("Postgres")
    }

    /// The response, or `None` if there is none after [`LOCK_CHECK`]. The server may close the connection instead.
    pub fn response(&mut self) -> Option<Vec<u8>> {
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
                self.pid = self.parsed.pid.unwrap_or(self.pid);
                return Some(std::mem::take(&mut self.received));
            }
        }
    }

    /// Stops or continues the server's process, which must be waiting for a lock.
    ///
    /// # Errors
    /// If the process has ended.
    #[allow(unsafe_code)]
    pub fn freeze(&self, frozen: bool) -> Result<()> {
        let signal = if frozen { libc::SIGSTOP } else { libc::SIGCONT };
        // SAFETY: has no effect on this process.
        ensure!(unsafe { libc::kill(self.pid.cast_signed(), signal) } == 0, "process {} has ended", self.pid);
        Ok(())
    }

    /// Closes the connection and waits until the server's process has ended. `frozen` if it is stopped.
    ///
    /// # Errors
    /// If Postgres fails.
    pub fn end(self, postgres: &mut Self, frozen: bool) -> Result<()> {
        let pid = self.pid;
        if frozen {
            postgres.query(&format!("SELECT pg_terminate_backend({pid})"))?;
            self.freeze(false)?;
        }
        drop(self);
        let count = format!("SELECT count(*) FROM pg_stat_get_activity({pid})");
        while pid != 0 && postgres.query(&count)?.first().is_some_and(|count| count != "0") {}
        Ok(())
    }

    /// Logs in with a password.
    ///
    /// # Errors
    /// If the connection is broken or the login fails.
    pub fn log_in(port: u16, user: &str, password: &str) -> Result<Self> {
        let mut server = Self::connect(port)?;
        server.send(&postgres::startup(user))?;
        while server.response().is_none() {}
        server.send(&postgres::password(password))?;
        while server.response().is_none() {}
        ensure!(server.pid != 0, "Postgres refuses the login");
        Ok(server)
    }

    /// Runs a statement with the simple protocol and returns the first column.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn query(&mut self, sql: &str) -> Result<Vec<String>> {
        self.send(&postgres::query(sql))?;
        loop {
            if let Some(response) = self.response() {
                ensure!(!response.is_empty(), "Postgres closed the connection");
                return Ok(postgres::first_column(&response));
            }
        }
    }
}

/// The server's end of a connection to Redis.
#[derive(Debug)]
pub struct RedisServer {
    stream: TcpStream,
    /// Received bytes that are not a whole value yet.
    partial: Vec<u8>,
    /// Commands without a response.
    pending: usize,
    /// Whether messages arrive without a command.
    subscribed: bool,
    /// When the command that blocks gives up, in virtual microseconds.
    pub blocked_until: Option<u64>,
}

impl RedisServer {
    /// Connects.
    ///
    /// # Errors
    /// If the server does not accept.
    pub fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("Redis")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, partial: Vec::new(), pending: 0, subscribed: false, blocked_until: None })
    }

    /// Sends a command and, unless it or an earlier one blocks, waits for the response, which is added to `into`.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn forward(&mut self, command: &[u8], into: &mut Vec<u8>) -> Result<()> {
        self.stream.write_all(command).context("Redis")?;
        self.pending += 1;
        self.subscribed |= redis::name(command).eq_ignore_ascii_case(b"SUBSCRIBE");
        // Redis counts whole milliseconds, and a blocked command ends after its last one.
        if let Some(ms) = redis::block_ms(command) {
            self.blocked_until = Some((clock::now_us() / 1_000 + ms + 1) * 1_000);
        }
        while self.pending > 0 && !self.may_receive_later() {
            self.receive(Duration::from_secs(10), into)?;
        }
        Ok(())
    }

    /// Whether something may arrive although no command is sent.
    pub fn may_receive_later(&self) -> bool {
        self.blocked_until.is_some() || self.subscribed
    }

    /// Adds what arrives within `limit` to `into`.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn receive(&mut self, limit: Duration, into: &mut Vec<u8>) -> Result<()> {
        if has_arrived(&self.stream, limit) {
            ensure!(read_available(&mut self.stream, &mut self.partial), "Redis closed the connection");
        }
        while let Some(length) = redis::value(&self.partial) {
            into.extend(self.partial.drain(..length));
            self.pending = self.pending.saturating_sub(1);
            self.blocked_until = None;
        }
        Ok(())
    }

    /// Sends a command and waits for the response.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn call(&mut self, command: &[u8]) -> Result<Vec<u8>> {
        let mut response = Vec::new();
        self.forward(command, &mut response)?;
        Ok(response)
    }
}
