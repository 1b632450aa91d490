//! Why no answer came: a kind for programs and a sentence for the merchant, which tells nothing of our side.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::time::Duration;

use tokio_rustls::rustls;

/// Characters of a message at most: a certificate may name thousands of hosts.
const MAX_MESSAGE: usize = 200;

/// One sentence for a name that is none and for one that leads inwards, so that nobody learns which names there are inside.
const NO_ADDRESS: &str = "the host's name leads to no address that may be connected to";

/// A request that got no whole answer. It may have been received nonetheless, unless the kind says otherwise.
#[derive(Debug)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// What went wrong, fit for the merchant's eyes: it names no address that a name led to.
    pub message: Cow<'static, str>,
    /// From the call to the failure.
    pub duration: Duration,
}

/// Kinds of failure, in the order in which a request meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The host's name has no address, or could not be looked up. Nothing was sent.
    Dns,
    /// The host has only addresses that nobody may make us connect to. No connection was made.
    AddressRefused,
    /// No connection could be made, or it broke off before the end of the answer.
    Connect,
    /// The handshake failed or the certificate is not good. Nothing was sent.
    Tls,
    /// What came back is not HTTP/1.1, or its head is too large.
    Protocol,
    /// No whole answer in time.
    Timeout,
}

/// A failure before anybody looks at the clock.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Fault {
    pub(super) kind: FailureKind,
    pub(super) message: Cow<'static, str>,
}

impl Fault {
    pub(super) const fn new(kind: FailureKind, message: &'static str) -> Self {
        Self { kind, message: Cow::Borrowed(message) }
    }

    pub(super) const fn refused() -> Self {
        Self::new(FailureKind::AddressRefused, NO_ADDRESS)
    }

    pub(super) const fn unknown_name() -> Self {
        Self::new(FailureKind::Dns, NO_ADDRESS)
    }

    pub(super) fn timeout(limit: Duration) -> Self {
        Self { kind: FailureKind::Timeout, message: format!("no complete answer within {limit:?}").into() }
    }

    /// The fault that an error of the HTTP client is, or was caused by.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let found = if let Some(fault) = error.downcast_ref::<Self>() {
                Some(fault.clone())
            } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
                Self::of_http(error)
            } else {
                error.downcast_ref::<io::Error>().map(Self::of_io)
            };
            if let Some(fault) = found {
                return fault;
            }
            next = error.source();
        }
        Self::new(FailureKind::Connect, "the connection failed")
    }

    /// What the handshake failed of. Servers that do not speak TLS often just hang up.
    pub(super) fn of_handshake(error: &io::Error) -> Self {
        Self::of_tls(error)
            .unwrap_or_else(|| Self::new(FailureKind::Tls, "the connection was closed during the TLS handshake"))
    }

    fn of_tls(error: &io::Error) -> Option<Self> {
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        let message: String = format!("TLS: {error}").chars().take(MAX_MESSAGE).collect();
        Some(Self { kind: FailureKind::Tls, message: message.into() })
    }

    fn of_http(error: &hyper::Error) -> Option<Self> {
        if error.is_parse_too_large() {
            Some(Self::new(FailureKind::Protocol, "the head of the answer is too large"))
        } else if error.is_parse() {
            Some(Self::new(FailureKind::Protocol, "the answer is not HTTP/1.1"))
        } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            Some(Self::new(FailureKind::Connect, "the connection was closed before the answer was complete"))
        } else {
            // Of the socket or of the body's framing: the cause says which.
            None
        }
    }

    fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let is = |kinds: &[io::ErrorKind]| kinds.contains(&error.kind());
        if let Some(fault) = Self::of_tls(error) {
            fault
        } else if is(&[io::ErrorKind::TimedOut]) {
            Self::new(FailureKind::Timeout, "the connection could not be made in time")
        } else if is(&[io::ErrorKind::ConnectionRefused]) {
            Self::new(FailureKind::Connect, "the connection was refused")
        } else if is(&[ConnectionReset, ConnectionAborted, BrokenPipe, UnexpectedEof]) {
            Self::new(FailureKind::Connect, "the connection was closed before the answer was complete")
        } else if is(&[io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput]) {
            Self::new(FailureKind::Protocol, "the answer is not HTTP/1.1")
        } else {
            Self::new(FailureKind::Connect, "the host cannot be reached")
        }
    }
}
