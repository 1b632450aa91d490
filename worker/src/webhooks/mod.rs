//! Webhook delivery: a single task tracks which endpoints may have due deliveries, claims as many as their windows allow,
//! and records the attempts.
//!
//! While one claim runs, the requests of other endpoints accumulate for the next claim; results accumulate in the same way
//! while others are recorded. Batches therefore grow with the load, and no delivery waits for a batch to fill.

mod attempt;
mod windows;

use std::collections::HashMap;
use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use domain::webhooks::START_WINDOW;
use domain::webhooks::dispatch::{self, Attempted, Claimed, Failure};
use foundation::db::Db;
use foundation::error::{Error, Result};
use foundation::failpoint;
use foundation::id::{WebhookDeliveryId, WebhookEndpointId};
use futures_util::FutureExt;
use sqlx::PgPool;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::attempt::Outcome;
pub(crate) use self::attempt::Sender;
use self::windows::{AttemptResult, ClaimRequest, EndpointWindows, Slot};

/// Attempts recorded by one statement.
const RECORD_BATCH: usize = 500;
/// Longer than the server's own statement timeout.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause after a database error, and before attempts are recorded whose deliveries another transaction had locked.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Wakes the dispatcher for endpoints that may have due deliveries.
#[derive(Clone)]
pub(crate) struct Wakes(mpsc::UnboundedSender<WebhookEndpointId>);

impl Wakes {
    /// Repeated wake-ups of an endpoint cost nothing.
    pub(crate) fn wake(&self, endpoint: WebhookEndpointId) {
        // The receiver is dropped only while the process exits.
        let _ = self.0.send(endpoint);
    }
}

type Claiming = Pin<Box<dyn Future<Output = (Vec<ClaimRequest>, Instant, Result<Vec<Claimed>>)> + Send>>;
type Recording = Pin<Box<dyn Future<Output = (Vec<Slot>, Vec<Attempted>, Result<Vec<WebhookDeliveryId>>)> + Send>>;

/// What the task of an attempt returns.
struct Finished {
    endpoint: WebhookEndpointId,
    slot: Slot,
    outcome: TaskOutcome,
}

enum TaskOutcome {
    Attempted(Box<Attempted>),
    /// The event could not be signed; the delivery waits for a later retry.
    Held,
    /// The claim was too old to start the attempt, or the task panicked.
    Aborted,
}

/// State of the delivery task.
pub(crate) struct Dispatcher {
    db: Db,
    /// For claims, without synchronous commit. A claim lost in a Postgres crash repeats an attempt, which may happen
    /// anyway.
    claims: PgPool,
    sender: Sender,
    woken: mpsc::UnboundedReceiver<WebhookEndpointId>,
    windows: EndpointWindows,
    sending: JoinSet<Finished>,
    /// Attempts that are not recorded yet, and the slots they still hold, in the same order.
    unrecorded: Vec<Attempted>,
    slots: Vec<Slot>,
    /// Attempts whose deliveries another transaction has locked, and their slots.
    locked: Vec<(Slot, Attempted)>,
    /// Ends when `locked` are to be recorded.
    unlocking: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// How many of `unrecorded` are recorded one by one, because Postgres rejected their batch.
    singly: usize,
    /// The last batch could not be recorded: Postgres may be unavailable.
    recording_failed: bool,
    claiming: Option<Claiming>,
    recording: Option<Recording>,
}

impl Dispatcher {
    pub(crate) fn new(db: Db, claims: PgPool, sender: Sender) -> (Self, Wakes) {
        let (wakes, woken) = mpsc::unbounded_channel();
        let dispatcher = Self {
            db,
            claims,
            sender,
            woken,
            windows: EndpointWindows::new(),
            sending: JoinSet::new(),
            unrecorded: Vec::new(),
            slots: Vec::new(),
            locked: Vec::new(),
            unlocking: None,
            singly: 0,
            recording_failed: false,
            claiming: None,
            recording: None,
        };
        (dispatcher, Wakes(wakes))
    }

    /// Delivers until `stop`, then claims nothing more and finishes and records the running attempts within
    /// `drain_timeout`. Other workers repeat the rest when the leases expire.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>, drain_timeout: Duration) {
        let mut stop = pin!(stop);
        let mut stopping = false;
        let mut deadline: Pin<Box<dyn Future<Output = ()> + Send>> = pending().boxed();
        loop {
            if !stopping {
                self.claim();
            }
            self.record();
            metrics::gauge!("webhooks_in_flight").set(self.windows.in_flight() as f64);
            if stopping && self.is_done() {
                return;
            }
            tokio::select! {
                () = &mut stop, if !stopping => {
                    stopping = true;
                    deadline = tokio::time::sleep(drain_timeout).boxed();
                }
                () = &mut deadline => {
                    tracing::warn!(
                        unfinished = self.sending.len(),
                        "stopped with deliveries in flight; they are repeated when their leases expire"
                    );
                    return;
                }
                Some(endpoint) = self.woken.recv() => {
                    self.windows.wake(endpoint);
                    // Drain the channel first, so that the next claim covers all woken endpoints.
                    while let Ok(endpoint) = self.woken.try_recv() {
                        self.windows.wake(endpoint);
                    }
                }
                (requests, started, claimed) = poll_some(&mut self.claiming) => {
                    self.claiming = None;
                    self.start_attempts(requests, started, claimed).await;
                }
                Some(joined) = self.sending.join_next() => {
                    let mut joined = Some(joined);
                    while let Some(Ok(finished)) = joined {
                        self.finish_attempt(finished);
                        joined = self.sending.try_join_next();
                    }
                }
                (slots, attempts, outcome) = poll_some(&mut self.recording) => {
                    self.recording = None;
                    self.finish_recording(slots, attempts, outcome).await;
                }
                () = poll_some(&mut self.unlocking) => self.requeue_locked(),
            }
        }
    }

    fn is_done(&self) -> bool {
        self.claiming.is_none()
            && self.recording.is_none()
            && self.sending.is_empty()
            && self.unrecorded.is_empty()
            && self.locked.is_empty()
    }

    /// Claims for all endpoints with capacity, unless a claim is running.
    fn claim(&mut self) {
        // While attempts cannot be recorded, their leases may expire and a claim would return them again.
        if self.claiming.is_some() || self.recording_failed {
            return;
        }
        let requests = self.windows.take_claim_requests();
        if requests.is_empty() {
            return;
        }
        let (claims, started) = (self.claims.clone(), Instant::now());
        self.claiming = Some(
            async move {
                let counts: Vec<_> = requests
                    .iter()
                    .map(|request| (request.endpoint, i64::try_from(request.count).unwrap_or(i64::MAX)))
                    .collect();
                let claimed = async {
                    let claimed = with_timeout(dispatch::claim(&claims, &counts)).await?;
                    failpoint!("webhooks.claimed");
                    Ok(claimed)
                };
                (requests, started, claimed.await)
            }
            .boxed(),
        );
    }

    async fn start_attempts(&mut self, requests: Vec<ClaimRequest>, started: Instant, claimed: Result<Vec<Claimed>>) {
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::error!(%error, "could not claim deliveries; trying again");
                requests.into_iter().for_each(|request| self.windows.claim_failed(request));
                tokio::time::sleep(RETRY_DELAY).await;
                return;
            }
        };
        if started.elapsed() >= START_WINDOW {
            tracing::warn!(count = claimed.len(), "the claim took too long to start its deliveries; releasing them");
            if let Err(error) = with_timeout(dispatch::release(&self.claims, &claimed)).await {
                tracing::error!(%error, "could not release the deliveries; they are due when their leases expire");
            }
            requests.into_iter().for_each(|request| self.windows.claim_failed(request));
            tokio::time::sleep(RETRY_DELAY).await;
            return;
        }
        let slots: HashMap<_, _> = requests.iter().map(|request| (request.endpoint, request.slot)).collect();
        let mut counts: HashMap<WebhookEndpointId, usize> = HashMap::new();
        for claimed in claimed {
            let endpoint = claimed.endpoint_id;
            let Some(slot) = slots.get(&endpoint).copied() else { continue };
            self.windows.belongs_to(endpoint, claimed.account_id);
            *counts.entry(endpoint).or_default() += 1;
            let (sender, claims) = (self.sender.clone(), self.claims.clone());
            self.sending.spawn(async move {
                // The deletion of an endpoint waits this long: no attempt may start later.
                let outcome = if started.elapsed() < START_WINDOW {
                    // A panic must not leak the slot.
                    let attempting = AssertUnwindSafe(attempt(&sender, &claims, claimed));
                    attempting.catch_unwind().await.unwrap_or(TaskOutcome::Aborted)
                } else {
                    TaskOutcome::Aborted
                };
                Finished { endpoint, slot, outcome }
            });
        }
        for request in requests {
            let count = counts.get(&request.endpoint).copied().unwrap_or(0);
            self.windows.claim_finished(request, count);
        }
    }

    fn finish_attempt(&mut self, finished: Finished) {
        let attempted = match finished.outcome {
            TaskOutcome::Attempted(attempted) => *attempted,
            TaskOutcome::Held => {
                self.windows.attempt_finished(finished.endpoint, AttemptResult::Failed);
                self.windows.attempt_recorded(finished.endpoint, finished.slot);
                return;
            }
            TaskOutcome::Aborted => {
                tracing::warn!(
                    endpoint = %finished.endpoint,
                    "a claimed delivery did not start in time, or panicked; it is due when its lease expires"
                );
                self.windows.attempt_recorded(finished.endpoint, finished.slot);
                return;
            }
        };
        measure(&attempted);
        let (succeeded, timed_out) = (attempted.failure.is_none(), attempted.failure == Some(Failure::Timeout));
        let result = AttemptResult::of(succeeded, timed_out, attempted.duration);
        self.windows.attempt_finished(finished.endpoint, result);
        self.unrecorded.push(attempted);
        self.slots.push(finished.slot);
    }

    /// Records the attempts collected so far, unless a recording is running.
    fn record(&mut self) {
        if self.recording.is_some() || self.unrecorded.is_empty() {
            return;
        }
        let size = if self.singly > 0 { 1 } else { RECORD_BATCH };
        self.singly = self.singly.saturating_sub(1);
        let count = self.unrecorded.len().min(size);
        let attempts: Vec<Attempted> = self.unrecorded.drain(..count).collect();
        let slots: Vec<Slot> = self.slots.drain(..count).collect();
        let (db, clock) = (self.db.clone(), self.sender.clock.clone());
        self.recording = Some(
            async move {
                let outcome = async {
                    failpoint!("webhooks.attempted");
                    with_timeout(dispatch::record(&db, &attempts, clock.now())).await
                };
                let outcome = outcome.await;
                (slots, attempts, outcome)
            }
            .boxed(),
        );
    }

    async fn finish_recording(
        &mut self,
        slots: Vec<Slot>,
        attempts: Vec<Attempted>,
        outcome: Result<Vec<WebhookDeliveryId>>,
    ) {
        self.recording_failed = false;
        let count = attempts.len();
        match outcome {
            Ok(locked) => self.finish_recorded(slots, attempts, &locked),
            Err(error) if !rejects_row(&error) => {
                tracing::error!(%error, count, "could not record attempts; trying again");
                self.recording_failed = true;
                self.requeue(slots, attempts);
                tokio::time::sleep(RETRY_DELAY).await;
            }
            Err(error) if count > 1 => {
                tracing::warn!(%error, count, "Postgres rejected a batch of attempts; recording them one by one");
                self.singly = count;
                self.requeue(slots, attempts);
            }
            Err(error) => {
                for Claimed { id, .. } in attempts.iter().map(|attempt| &attempt.claimed) {
                    tracing::error!(%error, delivery = %id, "Postgres rejected an attempt; it is repeated when its lease expires");
                }
                self.release_slots(&slots, &attempts);
            }
        }
    }

    /// Releases the slots of recorded attempts. The others are recorded after a pause, in which those of other deliveries
    /// are.
    fn finish_recorded(&mut self, slots: Vec<Slot>, attempts: Vec<Attempted>, locked: &[WebhookDeliveryId]) {
        for (slot, attempt) in slots.into_iter().zip(attempts) {
            if locked.contains(&attempt.claimed.id) {
                self.locked.push((slot, attempt));
            } else {
                self.windows.attempt_recorded(attempt.claimed.endpoint_id, slot);
            }
        }
        if !self.locked.is_empty() && self.unlocking.is_none() {
            self.unlocking = Some(tokio::time::sleep(RETRY_DELAY).boxed());
        }
    }

    /// Appends the attempts that were not recorded to the others, so that they are recorded last.
    fn requeue_locked(&mut self) {
        self.unlocking = None;
        for (slot, attempt) in self.locked.drain(..) {
            self.slots.push(slot);
            self.unrecorded.push(attempt);
        }
    }

    fn release_slots(&mut self, slots: &[Slot], attempts: &[Attempted]) {
        for (slot, attempt) in slots.iter().zip(attempts) {
            self.windows.attempt_recorded(attempt.claimed.endpoint_id, *slot);
        }
    }

    /// Returns attempts to the front, so that they are recorded first the next time.
    fn requeue(&mut self, slots: Vec<Slot>, attempts: Vec<Attempted>) {
        self.unrecorded.splice(..0, attempts);
        self.slots.splice(..0, slots);
    }
}

/// Makes the attempt, or holds the delivery if its event cannot be signed.
async fn attempt(sender: &Sender, claims: &PgPool, claimed: Claimed) -> TaskOutcome {
    let (endpoint, signing_failed) = (claimed.endpoint_id, claimed.signing_failed);
    match sender.attempt(claimed).await {
        Outcome::Attempted(attempted) => {
            if signing_failed && let Err(error) = with_timeout(dispatch::clear_signing_failure(claims, endpoint)).await
            {
                tracing::warn!(%error, %endpoint, "could not clear the signing failure; the next delivery clears it");
            }
            TaskOutcome::Attempted(Box::new(attempted))
        }
        Outcome::Unsigned(claimed) => {
            metrics::counter!(UNSIGNED).increment(1);
            tracing::error!(
                %endpoint, delivery = %claimed.id,
                "cannot decrypt a signing secret, so the delivery is held: was ENCRYPTION_KEY changed?"
            );
            if let Err(error) = with_timeout(dispatch::hold_unsigned(claims, &claimed)).await {
                tracing::error!(%error, delivery = %claimed.id, "could not hold the delivery; it is due when its lease expires");
            }
            TaskOutcome::Held
        }
    }
}

/// Limits a statement on this side too: the server's timeout does not help when the server becomes unreachable.
async fn with_timeout<T>(statement: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(STATEMENT_TIMEOUT, statement).await {
        Ok(result) => result,
        Err(_) => Err(Error::Database(sqlx::Error::PoolTimedOut)),
    }
}

/// Whether Postgres will never accept the row: error classes 22 (data exception) and 23 (integrity constraint
/// violation).
fn rejects_row(error: &Error) -> bool {
    let Error::Database(error) = error else { return false };
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

/// The output of the future; pending forever without one.
async fn poll_some<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

const SUCCEEDED: &str = "succeeded";
/// Counts deliveries held because their event could not be signed.
const UNSIGNED: &str = "webhooks_unsigned_total";

/// Registers the counters at zero, so that the first increment is visible as an increase.
pub(crate) fn register_metrics() {
    for outcome in Failure::ALL.map(Failure::name).into_iter().chain([SUCCEEDED]) {
        metrics::counter!("webhooks_attempts_total", "outcome" => outcome).increment(0);
    }
    metrics::counter!(UNSIGNED).increment(0);
    let _ = metrics::histogram!("webhooks_attempt_seconds");
    let _ = metrics::histogram!("webhooks_delivery_seconds");
}

fn measure(attempted: &Attempted) {
    let outcome = attempted.failure.map_or(SUCCEEDED, Failure::name);
    metrics::counter!("webhooks_attempts_total", "outcome" => outcome).increment(1);
    metrics::histogram!("webhooks_attempt_seconds").record(attempted.duration.as_secs_f64());
    if attempted.failure.is_none() && attempted.claimed.replay_of.is_none() {
        let ended = attempted.attempted_at.plus(attempted.duration);
        let seconds = (ended.as_millisecond() - attempted.claimed.happened_at.as_millisecond()) as f64 / 1000.0;
        metrics::histogram!("webhooks_delivery_seconds").record(seconds.max(0.0));
    }
    if let Some(failure) = attempted.failure {
        tracing::debug!(
            delivery = %attempted.claimed.id, endpoint = %attempted.claimed.endpoint_id, failure = failure.name(),
            status = attempted.response_status, attempt = attempted.claimed.attempt, "a delivery failed"
        );
    }
}
