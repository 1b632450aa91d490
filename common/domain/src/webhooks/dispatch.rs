//! Delivery attempts: claiming due deliveries, and recording the results.

use std::time::Duration;

use sqlx::PgPool;

use super::store::{dispatch as store, signing};
use super::{DisabledReason, schedule};
use crate::accounts::Mode;
use foundation::db::Db;
use foundation::error::Result;
use foundation::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use foundation::time::Timestamp;

/// How long a claim lasts: longer than [`ATTEMPT_TIMEOUT`] plus the time to record the result.
pub const LEASE: Duration = Duration::from_secs(30);
/// How long an endpoint has for its complete response.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// An endpoint is disabled after failing for this long.
pub const DISABLED_AFTER: Duration = Duration::from_secs(5 * 24 * 3600);
/// Failures further apart than this belong to separate failing periods. Longer than the longest delay of the schedule.
pub const MAX_FAILURE_GAP: Duration = Duration::from_secs(27 * 3600);
/// How many undeliverable deliveries one call closes at most.
pub const CLOSING_BATCH: i64 = 1_000;

/// A delivery claimed by this worker until its lease ends.
#[derive(Debug)]
pub struct Claimed {
    pub id: WebhookDeliveryId,
    pub account_id: AccountId,
    /// The account's mode, which decides which addresses are allowed.
    pub mode: Mode,
    pub endpoint_id: WebhookEndpointId,
    pub event_id: EventId,
    /// When the event happened.
    pub happened_at: Timestamp,
    /// When the delivery was written.
    pub created_at: Timestamp,
    /// Starts at 1.
    pub attempt: i16,
    /// The delivery that this replay repeats.
    pub replay_of: Option<WebhookDeliveryId>,
    /// The fencing token of this claim.
    pub fence: i64,
    pub url: String,
    /// The bytes to send.
    pub payload: String,
    /// The signing secret, encrypted with the endpoint's id as context.
    pub secret: Vec<u8>,
    /// After a rotation, the previous secret, which signs too.
    pub previous_secret: Option<Vec<u8>>,
    /// The last delivery to the endpoint could not be signed.
    pub signing_failed: bool,
}

/// Claims up to the given number of due deliveries of each endpoint, oldest first. Skips endpoints that are disabled,
/// deleted or paused, and events past the retention period.
///
/// A claim locks the endpoint, and a deletion waits for that lock. A worker that starts its claimed attempts only
/// within [`super::START_WINDOW`] therefore starts none after the deletion was acknowledged.
///
/// # Errors
/// Only the database's.
pub async fn claim(db: &PgPool, capacity: &[(WebhookEndpointId, i64)]) -> Result<Vec<Claimed>> {
    store::claim(db, capacity, LEASE).await
}

/// Releases claimed deliveries that were not attempted: they are due as before.
///
/// # Errors
/// Only the database's.
pub async fn release(db: &PgPool, claimed: &[Claimed]) -> Result<()> {
    store::release(db, claimed).await
}

/// Releases a claimed delivery that cannot be signed. It uses up no attempt and does not count as a failure of the
/// endpoint, but no delivery of the endpoint is claimed for some seconds. The delay grows up to a minute.
///
/// # Errors
/// Only the database's; then the delivery is due again when its lease ends.
pub async fn hold_unsigned(db: &PgPool, claimed: &Claimed) -> Result<()> {
    let chance = f64::from(foundation::crypto::random_u32()) / f64::from(u32::MAX);
    signing::hold(db, claimed.endpoint_id, chance).await?;
    store::release(db, std::slice::from_ref(claimed)).await
}

/// Records that deliveries to an endpoint can be signed again.
///
/// # Errors
/// Only the database's; then the next delivery records it.
pub async fn clear_signing_failure(db: &PgPool, endpoint: WebhookEndpointId) -> Result<()> {
    signing::release(db, endpoint).await
}

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
        if self.failure.is_none() || self.is_gone() || self.claimed.replay_of.is_some() {
            return None;
        }
        schedule::delay(self.claimed.attempt, chance, self.requested_delay())
    }

    /// How long the endpoint is paused after this attempt.
    pub fn paused_for(&self) -> Option<Duration> {
        schedule::pause(self.requested_delay())
    }

    /// Whether the endpoint answered 410 Gone.
    pub fn is_gone(&self) -> bool {
        self.response_status == Some(410)
    }

    /// `Retry-After` counts only with a status that says the endpoint is overloaded.
    fn requested_delay(&self) -> Option<Duration> {
        self.response_status.filter(|status| [429, 503].contains(status)).and(self.retry_after)
    }
}

/// Records attempts in one statement, with the next attempt and the new state of the endpoint. Then disables endpoints
/// that answered 410 or have failed for too long, which emits an event for the account's other endpoints.
///
/// Attempts are recorded even if another worker has claimed the delivery since: a late success ends the delivery, and a
/// late failure is stored as a separate delivery with its own id.
///
/// # Errors
/// Only the database's; then nothing was recorded.
pub async fn record(db: &Db, attempts: &[Attempted], now: Timestamp) -> Result<()> {
    if attempts.is_empty() {
        return Ok(());
    }
    let chance = || f64::from(foundation::crypto::random_u32()) / f64::from(u32::MAX);
    let mut rows: Vec<_> = attempts.iter().map(|attempt| (attempt, attempt.next_attempt_after(chance()))).collect();
    // Rows are locked in this order.
    rows.sort_by_key(|(attempt, _)| attempt.claimed.id);
    for failing in store::record(db, &rows, DISABLED_AFTER).await? {
        let Some(attempt) = attempts.iter().find(|attempt| attempt.claimed.endpoint_id == failing.id) else { continue };
        let account = (failing.account_id, attempt.claimed.mode);
        let disabled = super::endpoints::disable(db, account, failing.id, failing.reason, now).await;
        // The attempts are recorded already, so an error here must not cause a second recording.
        if let Err(error) = disabled {
            tracing::error!(%error, endpoint = %failing.id, "endpoint not disabled; its next failure disables it");
        }
    }
    Ok(())
}

/// Endpoints with unclaimed deliveries that have been due for `late`. The cost depends on the number of endpoints with
/// a backlog, not on the length of a backlog.
///
/// # Errors
/// Only the database's.
pub async fn endpoints_due(db: &PgPool, late: Duration) -> Result<Vec<WebhookEndpointId>> {
    store::endpoints_due(db, late).await
}

/// Closes pending deliveries to endpoints that are disabled or deleted. They are kept as failed deliveries without an
/// attempt, and can be replayed. Returns how many, at most [`CLOSING_BATCH`].
///
/// # Errors
/// Only the database's.
pub async fn close_undeliverable(db: &PgPool) -> Result<u64> {
    store::close_undeliverable(db, CLOSING_BATCH).await
}

/// Closes, in the same way, due deliveries of events past the retention period, such as replays of an old month that
/// were still pending when its partition was dropped. Returns how many, at most [`CLOSING_BATCH`].
///
/// # Errors
/// Only the database's.
pub async fn close_forgotten(db: &PgPool) -> Result<u64> {
    store::close_forgotten(db, CLOSING_BATCH).await
}

/// Metrics count at most this many deliveries, so that counting a long backlog stays cheap.
pub const COUNT_LIMIT: i64 = 100_000;

/// Deliveries are normally made within seconds; one that has been due for longer than this is late.
pub(super) const LATE_AFTER: Duration = Duration::from_secs(180);

/// Pending deliveries, and the state of their endpoints.
#[derive(Debug)]
pub struct Backlog {
    /// Deliveries that are due now. `due` and `waiting` together count at most [`COUNT_LIMIT`].
    pub due: i64,
    /// Deliveries whose next attempt is in the future.
    pub waiting: i64,
    /// How long the oldest due delivery has been due.
    pub oldest_due_seconds: f64,
    /// Enabled endpoints that are neither failing nor paused, but have deliveries that are late.
    pub endpoints_late: i64,
    /// Endpoints with pending deliveries whose last attempt failed.
    pub endpoints_failing: i64,
    /// Endpoints with pending deliveries that cannot be signed.
    pub endpoints_unsigned: i64,
    /// The number of disabled endpoints by reason.
    pub disabled: Vec<(DisabledReason, i64)>,
}

/// Reads the backlog.
///
/// # Errors
/// Only the database's.
pub async fn backlog(db: &PgPool) -> Result<Backlog> {
    store::backlog(db).await
}
