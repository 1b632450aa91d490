//! Making attempts: which deliveries a worker may make now, and what came of them.

use std::time::Duration;

use sqlx::PgPool;

use super::store::{dispatch as store, signing};
use super::{DisabledReason, schedule};
use crate::accounts::Mode;
use crate::db::Db;
use crate::error::Result;
use crate::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use crate::time::Timestamp;

/// How long a claim holds: longer than [`ATTEMPT_TIMEOUT`] and the recording together.
pub const LEASE: Duration = Duration::from_secs(30);
/// How long an endpoint has to answer whole.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// An endpoint of which no attempt has succeeded for so long is disabled.
pub const DISABLED_AFTER: Duration = Duration::from_secs(5 * 24 * 3600);
/// Failures with more time than this between them are not one stretch of failing: more than the longest delay of the schedule.
pub const FAILING_ANEW_AFTER: Duration = Duration::from_secs(27 * 3600);
/// How many deliveries that cannot be made one call closes.
pub const CLOSING_BATCH: i64 = 1_000;

/// A delivery that is ours to make until its lease ends.
#[derive(Debug)]
pub struct Claimed {
    /// The delivery.
    pub id: WebhookDeliveryId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The account's mode, which decides what addresses are allowed.
    pub mode: Mode,
    /// Who is told.
    pub endpoint_id: WebhookEndpointId,
    /// Of what.
    pub event_id: EventId,
    /// When the event happened.
    pub happened_at: Timestamp,
    /// When the delivery was written.
    pub created_at: Timestamp,
    /// The attempt's number, from 1 on.
    pub attempt: i16,
    /// The delivery that this one repeats, outside the retries.
    pub replay_of: Option<WebhookDeliveryId>,
    /// The fencing token of this claim.
    pub fence: i64,
    /// Where to.
    pub url: String,
    /// The bytes to send.
    pub payload: String,
    /// What signs, as stored: encrypted in the context of the endpoint's id.
    pub secret: Vec<u8>,
    /// What signs too, after a rotation.
    pub previous_secret: Option<Vec<u8>>,
    /// The last delivery to the endpoint could not be signed.
    pub signing_failed: bool,
}

/// Takes up to so many due deliveries of each endpoint, the longest due first. An endpoint that is disabled, deleted or asked
/// for time has none; so has an event that is no longer kept.
///
/// A claim holds a lock on the endpoint that its deletion waits for. Whoever begins what it claimed within
/// [`super::START_WINDOW`], and drops what it could not, therefore begins nothing after the deletion was answered.
///
/// # Errors
/// Only the database's.
pub async fn claim(db: &PgPool, wanted: &[(WebhookEndpointId, i64)]) -> Result<Vec<Claimed>> {
    store::claim(db, wanted, LEASE).await
}

/// Gives claimed deliveries back that were not begun: they are due as before.
///
/// # Errors
/// Only the database's.
pub async fn give_back(db: &PgPool, claimed: &[Claimed]) -> Result<()> {
    store::give_back(db, claimed).await
}

/// Puts a claimed delivery back that cannot be signed. It uses up no attempt and says nothing of the endpoint; but nothing is claimed
/// for the endpoint for some seconds, and longer each time, up to a minute.
///
/// # Errors
/// Only the database's; then the delivery is due again when its lease ends.
pub async fn hold_unsigned(db: &PgPool, claimed: &Claimed) -> Result<()> {
    let chance = f64::from(crate::crypto::random_u32()) / f64::from(u32::MAX);
    signing::hold(db, claimed.endpoint_id, chance).await?;
    store::give_back(db, std::slice::from_ref(claimed)).await
}

/// Notes that deliveries to an endpoint can be signed again.
///
/// # Errors
/// Only the database's; then the next delivery notes it.
pub async fn signed_again(db: &PgPool, endpoint: WebhookEndpointId) -> Result<()> {
    signing::release(db, endpoint).await
}

/// Why an attempt failed: the classes of the metric; `failureReason` says what [`Failure::told`] makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// An answer came whose status is not 2xx.
    Status,
    /// No whole answer came in time.
    Timeout,
    /// The name of the host leads nowhere.
    Dns,
    /// No connection was made, or it broke before the answer was whole.
    Connect,
    /// The certificate did not hold, or there was none.
    Tls,
    /// The URL is one that nothing is sent to.
    AddressRefused,
    /// The name of the host has no address but such as nobody may make us connect to.
    LeadsInwards,
    /// What came was not HTTP.
    Protocol,
    /// It was not made: the endpoint had been disabled.
    EndpointDisabled,
    /// It was not made: the endpoint had been deleted.
    EndpointDeleted,
    /// It was not made: the event was no longer kept by the time it could be.
    EventExpired,
}

impl Failure {
    /// Every class.
    pub const ALL: [Self; 11] = [
        Self::Status,
        Self::Timeout,
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::AddressRefused,
        Self::LeadsInwards,
        Self::Protocol,
        Self::EndpointDisabled,
        Self::EndpointDeleted,
        Self::EventExpired,
    ];

    /// What the merchant is told: which names there are inside is nobody's business.
    #[must_use]
    pub const fn told(self) -> Self {
        if matches!(self, Self::LeadsInwards) { Self::Dns } else { self }
    }

    /// Its name in answers, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::AddressRefused => "address_refused",
            Self::LeadsInwards => "leads_inwards",
            Self::Protocol => "protocol",
            Self::EndpointDisabled => "endpoint_disabled",
            Self::EndpointDeleted => "endpoint_deleted",
            Self::EventExpired => "event_expired",
        }
    }
}

/// An attempt that was made.
#[derive(Debug)]
pub struct Attempted {
    /// What was attempted.
    pub claimed: Claimed,
    /// When it began.
    pub attempted_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
    /// Why it failed; none if it succeeded.
    pub failure: Option<Failure>,
    /// The status that was answered, if one was.
    pub response_status: Option<u16>,
    /// The first 4 KiB of what was answered.
    pub response_body: Option<String>,
    /// Why nothing was answered, for the merchant.
    pub failure_message: Option<String>,
    /// For how long the endpoint asked to be left alone.
    pub retry_after: Option<Duration>,
}

impl Attempted {
    /// An attempt of which nothing is known yet.
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

    /// The endpoint answered; 2xx is success. Of the body, what is no text is replaced, and so is NUL, which Postgres does
    /// not keep.
    pub fn answered(&mut self, status: u16, body: &[u8], retry_after: Option<Duration>) {
        self.failure = (!(200..300).contains(&status)).then_some(Failure::Status);
        self.response_status = Some(status);
        self.response_body = Some(String::from_utf8_lossy(body).replace('\0', "\u{fffd}"));
        self.retry_after = retry_after;
    }

    /// It did not.
    pub fn fail(&mut self, failure: Failure, message: String) {
        self.failure = Some(failure);
        self.failure_message = Some(message);
    }

    /// How long after its end the next attempt is made, if this one failed and was not the last. `chance` is drawn from 0 to
    /// 1. A time and not an instant: the database's clock decides when something is due, and not a process's own.
    pub fn next_attempt_after(&self, chance: f64) -> Option<Duration> {
        if self.failure.is_none() || self.is_gone() || self.claimed.replay_of.is_some() {
            return None;
        }
        schedule::delay(self.claimed.attempt, chance, self.asked_for())
    }

    /// For how long after its end the endpoint is left alone.
    pub fn paused_for(&self) -> Option<Duration> {
        schedule::pause(self.asked_for())
    }

    /// Whether the endpoint said that it is no more.
    pub fn is_gone(&self) -> bool {
        self.response_status == Some(410)
    }

    /// Only whoever says that it is too busy is asked for how long.
    fn asked_for(&self) -> Option<Duration> {
        self.response_status.filter(|status| [429, 503].contains(status)).and(self.retry_after)
    }
}

/// Records attempts in one statement, with what follows from each: the next one, and the state of the endpoint. An endpoint
/// that is gone or has failed for too long is then disabled, which tells the account's other endpoints.
///
/// What is recorded is a fact, whoever holds the claim by now: a late success ends the delivery, and a late failure stands
/// beside it under an id of its own.
///
/// # Errors
/// Only the database's; then nothing was recorded.
pub async fn record(db: &Db, attempts: &[Attempted], now: Timestamp) -> Result<()> {
    if attempts.is_empty() {
        return Ok(());
    }
    let chance = || f64::from(crate::crypto::random_u32()) / f64::from(u32::MAX);
    let mut rows: Vec<_> = attempts.iter().map(|attempt| (attempt, attempt.next_attempt_after(chance()))).collect();
    // They are locked in this order.
    rows.sort_by_key(|(attempt, _)| attempt.claimed.id);
    for failing in store::record(db, &rows, DISABLED_AFTER).await? {
        let Some(attempt) = attempts.iter().find(|attempt| attempt.claimed.endpoint_id == failing.id) else { continue };
        let account = (failing.account_id, attempt.claimed.mode);
        let disabled = super::endpoints::disable(db, account, failing.id, failing.reason, now).await;
        // The attempts are recorded, and must not be once more.
        if let Err(error) = disabled {
            tracing::error!(%error, endpoint = %failing.id, "an endpoint was not disabled; it is at its next failure");
        }
    }
    Ok(())
}

/// Endpoints with deliveries that have been due for `late` and are nobody's. The cost follows the number of endpoints with a backlog, not the
/// length of any backlog.
///
/// # Errors
/// Only the database's.
pub async fn endpoints_due(db: &PgPool, late: Duration) -> Result<Vec<WebhookEndpointId>> {
    store::endpoints_due(db, late).await
}

/// Ends deliveries to endpoints that are disabled or deleted: they become failed ones that were never attempted, which can
/// be seen and replayed. Answers how many, [`CLOSING_BATCH`] at most.
///
/// # Errors
/// Only the database's.
pub async fn close_unwanted(db: &PgPool) -> Result<u64> {
    store::close_unwanted(db, CLOSING_BATCH).await
}

/// Ends due deliveries of events that are no longer kept, such as replays of an old month that were pending when it was dropped,
/// in the same way. Answers how many, [`CLOSING_BATCH`] at most.
///
/// # Errors
/// Only the database's.
pub async fn close_forgotten(db: &PgPool) -> Result<u64> {
    store::close_forgotten(db, CLOSING_BATCH).await
}

/// Deliveries that figures are counted of at most: a long backlog must not cost long countings.
pub const COUNTED: i64 = 100_000;

/// Deliveries are made within seconds, so one that has been due for so long waits for something.
pub(super) const LATE: Duration = Duration::from_secs(180);

/// What waits to be delivered.
#[derive(Debug)]
pub struct Backlog {
    /// Deliveries that could be made now; no more than [`COUNTED`] are counted in all.
    pub due: i64,
    /// Deliveries whose next attempt is yet to come.
    pub waiting: i64,
    /// Seconds since the longest due one fell due.
    pub oldest_due_seconds: f64,
    /// Endpoints that want to hear, do not fail and are not paused, and have deliveries which have been due for minutes.
    pub endpoints_late: i64,
    /// Endpoints with deliveries before them whose last attempt failed.
    pub endpoints_failing: i64,
    /// Endpoints with deliveries before them that cannot be signed.
    pub endpoints_unsigned: i64,
    /// How many endpoints are disabled, by reason.
    pub disabled: Vec<(DisabledReason, i64)>,
}

/// What waits to be delivered.
///
/// # Errors
/// Only the database's.
pub async fn backlog(db: &PgPool) -> Result<Backlog> {
    store::backlog(db).await
}
