//! The server's end of a connection to Redis.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::stream::{has_arrived, read_available};
use crate::clock;
use crate::wire::redis;

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
