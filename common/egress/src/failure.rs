//! Why there was no response: a kind for programs, and a sentence for the merchant that reveals nothing of our network.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::time::Duration;

use tokio_rustls::rustls;

/// Characters of a message: a certificate may name thousands of hosts.
const MAX_MESSAGE: usize = 200;

/// The same sentence for unknown and for internal names, so that merchants cannot probe which internal names exist.
const NO_ADDRESS: &str = "the host name does not resolve to a public address";

/// A request without a complete response. It may still have been received, unless the kind rules that out.
#[derive(Debug)]
pub struct Failure {
    pub kind: FailureKind,
    /// The cause, for the merchant. Names no resolved address.
    pub message: Cow<'static, str>,
    /// From the call to the failure.
    pub duration: Duration,
}

/// Kinds of failure, in the order of the stages of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The host name has no address, or could not be resolved. Nothing was sent.
    Dns,
    /// The host has only addresses that are not allowed. No connection was made.
    AddressRefused,
    /// The connection failed, or broke before the end of the response.
    Connect,
    /// The handshake failed or the certificate is invalid. Nothing was sent.
    Tls,
    /// The response is not HTTP/1.1, or its head is too large.
    Protocol,
    /// No complete response in time.
    Timeout,
}

/// A failure without the duration.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct ExchangeError {
    pub(super) kind: FailureKind,
    pub(super) message: Cow<'static, str>,
}

impl ExchangeError {
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
        Self { kind: FailureKind::Timeout, message: format!("no complete response within {limit:?}").into() }
    }

    /// Finds the underlying failure in the source chain of an error of the HTTP client.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let failure = if let Some(failure) = error.downcast_ref::<Self>() {
                Some(failure.clone())
            } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
                Self::of_http(error)
            } else {
                error.downcast_ref::<io::Error>().map(Self::of_io)
            };
            if let Some(failure) = failure {
                return failure;
            }
            next = error.source();
        }
        Self::new(FailureKind::Connect, "the connection failed")
    }

    /// The cause of a failed handshake. Servers that do not speak TLS often just close the connection.
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
            Some(Self::new(FailureKind::Protocol, "the head of the response is too large"))
        } else if error.is_parse() {
            Some(Self::new(FailureKind::Protocol, "the response is not HTTP/1.1"))
        } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            Some(Self::new(FailureKind::Connect, "the connection was closed before the response was complete"))
        } else {
            // An error of the socket or of the body's framing: its source tells them apart.
            None
        }
    }

    fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let is = |kinds: &[io::ErrorKind]| kinds.contains(&error.kind());
        if let Some(failure) = Self::of_tls(error) {
            failure
        } else if is(&[io::ErrorKind::TimedOut]) {
            Self::new(FailureKind::Timeout, "the connection timed out")
        } else if is(&[io::ErrorKind::ConnectionRefused]) {
            Self::new(FailureKind::Connect, "the connection was refused")
        } else if is(&[ConnectionReset, ConnectionAborted, BrokenPipe, UnexpectedEof]) {
            Self::new(FailureKind::Connect, "the connection was closed before the response was complete")
        } else if is(&[io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput]) {
            Self::new(FailureKind::Protocol, "the response is not HTTP/1.1")
        } else {
            Self::new(FailureKind::Connect, "the host cannot be reached")
        }
    }
}
