//! An attempt and its result.

use std::time::Duration;

use super::claim::Claimed;
use crate::webhooks::schedule;
use foundation::time::Timestamp;

/// How long an endpoint has for its complete response.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);

/// Why an attempt failed, as a label of the metric. `failureReason` shows [`Failure::visible_to_merchant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The response status is not 2xx.
    Status,
    /// No complete response in time.
    Timeout,
    /// The host name does not resolve.
    Dns,
    /// The connection failed, or broke before the response was complete.
    Connect,
    /// The TLS handshake failed, or the certificate is invalid.
    Tls,
    /// The URL itself is not allowed.
    AddressRefused,
    /// The host name resolves to non-public addresses only.
    PrivateAddress,
    /// The response is not HTTP.
    Protocol,
    /// Not attempted: the endpoint had been disabled.
    EndpointDisabled,
    /// Not attempted: the endpoint had been deleted.
    EndpointDeleted,
    /// Not attempted: the event was past its retention period.
    EventExpired,
}

impl Failure {
    pub const ALL: [Self; 11] = [
        Self::Status,
        Self::Timeout,
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::AddressRefused,
        Self::PrivateAddress,
        Self::Protocol,
        Self::EndpointDisabled,
        Self::EndpointDeleted,
        Self::EventExpired,
    ];

    /// The failure as merchants see it: they must not learn which names exist in the internal network.
    #[must_use]
    pub const fn visible_to_merchant(self) -> Self {
        if matches!(self, Self::PrivateAddress) { Self::Dns } else { self }
    }

    /// The name in responses, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::AddressRefused => "address_refused",
            Self::PrivateAddress => "private_address",
            Self::Protocol => "protocol",
            Self::EndpointDisabled => "endpoint_disabled",
            Self::EndpointDeleted => "endpoint_deleted",
            Self::EventExpired => "event_expired",
        }
    }
}

/// A completed attempt.
#[derive(Debug)]
pub struct Attempted {
    pub claimed: Claimed,
    /// When the attempt began.
    pub attempted_at: Timestamp,
    pub duration: Duration,
    /// `None` if the attempt succeeded.
    pub failure: Option<Failure>,
    pub response_status: Option<u16>,
    /// The first 4 KiB of the response body.
    pub response_body: Option<String>,
    /// Why there was no response, for the merchant.
    pub failure_message: Option<String>,
    /// The `Retry-After` of the response.
    pub retry_after: Option<Duration>,
}

impl Attempted {
    /// An attempt without a result yet.
    pub fn new(claimed: Claimed, attempted_at: Timestamp) -> Self {
        Self {
            claimed,
            attempted_at,
            duration: Duration::ZERO,
            failure: None,
            response_status: None,
            response_body: None,
            failure_message: None,
            retry_after: None,
        }
    }

    /// Sets the result from a response; 2xx is success. Bytes of the body that are not UTF-8 are replaced, and so is
    /// NUL, which Postgres cannot store.
    pub fn record_response(&mut self, status: u16, body: &[u8], retry_after: Option<Duration>) {
        self.failure = (!(200..300).contains(&status)).then_some(Failure::Status);
        self.response_status = Some(status);
        self.response_body = Some(String::from_utf8_lossy(body).replace('\0', "\u{fffd}"));
        self.retry_after = retry_after;
    }

    /// Sets the result of an attempt without a response.
    pub fn fail(&mut self, failure: Failure, message: String) {
        self.failure = Some(failure);
        self.failure_message = Some(message);
    }

    /// The delay between the end of this attempt and the next; `None` if it succeeded or was the last. `chance` is
    /// random in 0..=1. A duration and not an instant, because the database's clock decides when a delivery is due.
    pub fn next_attempt_after(&self, chance: f64) -> Option<Duration> {
        if self.failure.is_none() || self.is_gone() || self.claimed.replay_of.is_some() || self.claimed.is_test {
            return None;
        }
        schedule::delay(self.claimed.attempt, chance, self.requested_delay())
    }

    /// How long the endpoint is paused after this attempt.
    pub fn paused_for(&self) -> Option<Duration> {
        schedule::pause(self.requested_delay())
    }

    /// Whether the endpoint returned 410 Gone.
    pub fn is_gone(&self) -> bool {
        self.response_status == Some(410)
    }

    /// `Retry-After` counts only with a status that means that the endpoint is overloaded.
    fn requested_delay(&self) -> Option<Duration> {
        self.response_status.filter(|status| [429, 503].contains(status)).and(self.retry_after)
    }
}
