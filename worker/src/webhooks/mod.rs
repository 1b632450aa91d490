//! Delivering webhooks: one task that knows which endpoints may have something due, claims as much as their lanes allow, and
//! records what came of it.
//!
//! While one claim is under way, the wishes of all other lanes gather for the next, and so do results while others are being
//! recorded. So the fewer round trips a delivery costs, the more there is to do, and nothing ever waits for a batch to fill.

mod attempt;
mod lanes;

use std::collections::HashMap;
use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use common::db::Db;
use common::error::{Error, Result};
use common::id::WebhookEndpointId;
use common::proof::failpoint;
use common::webhooks::START_WINDOW;
use common::webhooks::dispatch::{self, Attempted, Claimed, Failure};
use futures_util::FutureExt;
use sqlx::PgPool;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::attempt::Outcome;
pub(crate) use self::attempt::Sender;
use self::lanes::{Ended, Lanes, Place, Wanted};

/// Attempts recorded in one statement at most.
const RECORD_BATCH: usize = 500;
/// Longer than any statement may take at the server.
const STATEMENT_LIMIT: Duration = Duration::from_secs(20);
/// After a failure of the database, before it is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Where endpoints are named that may have something due. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Wakes(mpsc::UnboundedSender<WebhookEndpointId>);

impl Wakes {
    /// Looks at this endpoint soon. It costs nothing to say so twice.
    pub(crate) fn wake(&self, endpoint: WebhookEndpointId) {
        // Nobody listens only while the process ends.
        let _ = self.0.send(endpoint);
    }
}

type Claiming = Pin<Box<dyn Future<Output = (Vec<Wanted>, Instant, Result<Vec<Claimed>>)> + Send>>;
type Recording = Pin<Box<dyn Future<Output = (Vec<Place>, Vec<Attempted>, Result<()>)> + Send>>;

/// What an attempt's task gives back.
struct Made {
    endpoint: WebhookEndpointId,
    place: Place,
    result: Tried,
}

enum Tried {
    /// An attempt was made.
    Attempted(Box<Attempted>),
    /// The delivery could not be signed and was put back.
    Held,
    /// It was too late to begin, or it broke off.
    Not,
}

/// The task's state.
pub(crate) struct Dispatcher {
    db: Db,
    /// For claims. One that Postgres forgets in a crash is made again, and so is its attempt: that may happen anyway.
    claims: PgPool,
    sender: Sender,
    woken: mpsc::UnboundedReceiver<WebhookEndpointId>,
    lanes: Lanes,
    sending: JoinSet<Made>,
    /// What was attempted and is not recorded yet, and the places that it still holds, in the same order.
    made: Vec<Attempted>,
    places: Vec<Place>,
    /// How many of `made` are recorded one by one, because among them is one that Postgres refuses.
    singly: usize,
    /// The last batch could not be recorded, and Postgres may be away.
    unrecorded: bool,
    claiming: Option<Claiming>,
    recording: Option<Recording>,
}

impl Dispatcher {
    /// A dispatcher, and where to wake it.
    pub(crate) fn new(db: Db, claims: PgPool, sender: Sender) -> (Self, Wakes) {
        let (wakes, woken) = mpsc::unbounded_channel();
        let dispatcher = Self {
            db,
            claims,
            sender,
            woken,
            lanes: Lanes::new(),
            sending: JoinSet::new(),
            made: Vec::new(),
            places: Vec::new(),
            singly: 0,
            unrecorded: false,
            claiming: None,
            recording: None,
        };
        (dispatcher, Wakes(wakes))
    }

    /// Delivers until told to stop; then nothing new is claimed, and what is under way is finished and recorded, within
    /// `patience`. What is not becomes another worker's when its lease ends.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>, patience: Duration) {
        let mut stop = pin!(stop);
        let mut stopping = false;
        let mut deadline: Pin<Box<dyn Future<Output = ()> + Send>> = pending().boxed();
        loop {
            if !stopping {
                self.claim();
            }
            self.record();
            metrics::gauge!("webhooks_in_flight").set(self.lanes.under_way() as f64);
            if stopping
                && self.claiming.is_none()
                && self.recording.is_none()
                && self.sending.is_empty()
                && self.made.is_empty()
            {
                return;
            }
            tokio::select! {
                () = &mut stop, if !stopping => {
                    stopping = true;
                    deadline = tokio::time::sleep(patience).boxed();
                }
                () = &mut deadline => {
                    tracing::warn!(unfinished = self.sending.len(), "deliveries under way were left; their leases end and they are made again");
                    return;
                }
                Some(endpoint) = self.woken.recv() => {
                    self.lanes.wake(endpoint);
                    // All who are there come before the next claim, which then serves them all.
                    while let Ok(endpoint) = self.woken.try_recv() {
                        self.lanes.wake(endpoint);
                    }
                }
                (wanted, began, claimed) = when_some(&mut self.claiming) => {
                    self.claiming = None;
                    self.begin(wanted, began, claimed).await;
                }
                Some(made) = self.sending.join_next() => {
                    let mut made = Some(made);
                    while let Some(Ok(one)) = made {
                        self.ended(one);
                        made = self.sending.try_join_next();
                    }
                }
                (places, attempts, outcome) = when_some(&mut self.recording) => {
                    self.recording = None;
                    self.recorded(places, attempts, outcome).await;
                }
            }
        }
    }

    /// Claims for all lanes that have room, unless a claim is under way.
    fn claim(&mut self) {
        // What was answered and is not recorded would be claimed once more when its lease ends.
        if self.claiming.is_some() || self.unrecorded {
            return;
        }
        let wanted = self.lanes.take_wanted();
        if wanted.is_empty() {
            return;
        }
        let (claims, began) = (self.claims.clone(), Instant::now());
        self.claiming = Some(
            async move {
                let counts: Vec<_> = wanted
                    .iter()
                    .map(|wanted| (wanted.endpoint, i64::try_from(wanted.count).unwrap_or(i64::MAX)))
                    .collect();
                let claimed = async {
                    let claimed = in_time(dispatch::claim(&claims, &counts)).await?;
                    failpoint("webhooks.claimed").await?;
                    Ok(claimed)
                };
                (wanted, began, claimed.await)
            }
            .boxed(),
        );
    }

    async fn begin(&mut self, wanted: Vec<Wanted>, began: Instant, claimed: Result<Vec<Claimed>>) {
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::error!(%error, "no deliveries were claimed; trying again");
                wanted.into_iter().for_each(|wanted| self.lanes.not_claimed(wanted));
                tokio::time::sleep(PAUSE).await;
                return;
            }
        };
        if began.elapsed() >= START_WINDOW {
            tracing::warn!(
                count = claimed.len(),
                "a claim took so long that nothing may be begun by it; it is given back"
            );
            if let Err(error) = in_time(dispatch::give_back(&self.claims, &claimed)).await {
                tracing::error!(%error, "not given back either; the deliveries are made when their leases end");
            }
            wanted.into_iter().for_each(|wanted| self.lanes.not_claimed(wanted));
            tokio::time::sleep(PAUSE).await;
            return;
        }
        let places: HashMap<_, _> = wanted.iter().map(|wanted| (wanted.endpoint, wanted.place)).collect();
        let mut brought: HashMap<WebhookEndpointId, usize> = HashMap::new();
        for claimed in claimed {
            let endpoint = claimed.endpoint_id;
            let Some(place) = places.get(&endpoint).copied() else { continue };
            *brought.entry(endpoint).or_default() += 1;
            let (sender, claims) = (self.sender.clone(), self.claims.clone());
            self.sending.spawn(async move {
                // Whoever deleted the endpoint has waited for so long, and no longer.
                let result = if began.elapsed() < START_WINDOW {
                    // A panic must not take the place with it.
                    let attempting = AssertUnwindSafe(attempt(&sender, &claims, claimed));
                    attempting.catch_unwind().await.unwrap_or(Tried::Not)
                } else {
                    Tried::Not
                };
                Made { endpoint, place, result }
            });
        }
        for wanted in wanted {
            let brought = brought.get(&wanted.endpoint).copied().unwrap_or(0);
            self.lanes.claimed(wanted, brought);
        }
    }

    fn ended(&mut self, made: Made) {
        let attempted = match made.result {
            Tried::Attempted(attempted) => *attempted,
            Tried::Held => {
                self.lanes.ended(made.endpoint, Ended::Refused);
                self.lanes.recorded(made.endpoint, made.place);
                return;
            }
            Tried::Not => {
                tracing::warn!(endpoint = %made.endpoint, "a claimed delivery was not begun in time, or broke off; it is made when its lease ends");
                self.lanes.recorded(made.endpoint, made.place);
                return;
            }
        };
        measure(&attempted);
        let (succeeded, timed_out) = (attempted.failure.is_none(), attempted.failure == Some(Failure::Timeout));
        let ended = Ended::of(succeeded, timed_out, attempted.duration);
        self.lanes.ended(made.endpoint, ended);
        self.made.push(attempted);
        self.places.push(made.place);
    }

    /// Records what has gathered, unless a recording is under way.
    fn record(&mut self) {
        if self.recording.is_some() || self.made.is_empty() {
            return;
        }
        let size = if self.singly > 0 { 1 } else { RECORD_BATCH };
        self.singly = self.singly.saturating_sub(1);
        let count = self.made.len().min(size);
        let attempts: Vec<Attempted> = self.made.drain(..count).collect();
        let places: Vec<Place> = self.places.drain(..count).collect();
        let (db, clock) = (self.db.clone(), self.sender.clock.clone());
        self.recording = Some(
            async move {
                let outcome = async {
                    failpoint("webhooks.attempted").await?;
                    in_time(dispatch::record(&db, &attempts, clock.now())).await
                };
                let outcome = outcome.await;
                (places, attempts, outcome)
            }
            .boxed(),
        );
    }

    async fn recorded(&mut self, places: Vec<Place>, attempts: Vec<Attempted>, outcome: Result<()>) {
        self.unrecorded = false;
        let count = attempts.len();
        match outcome {
            Ok(()) => self.free(&places, &attempts),
            Err(error) if !refuses_the_row(&error) => {
                tracing::error!(%error, count, "attempts were made and not recorded; trying again");
                self.unrecorded = true;
                self.put_back(places, attempts);
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) if count > 1 => {
                tracing::warn!(%error, count, "attempts were refused together; recording them one by one");
                self.singly = count;
                self.put_back(places, attempts);
            }
            Err(error) => {
                for Claimed { id, .. } in attempts.iter().map(|attempt| &attempt.claimed) {
                    tracing::error!(%error, delivery = %id, "an attempt cannot be recorded; it is made again when its lease ends");
                }
                self.free(&places, &attempts);
            }
        }
    }

    fn free(&mut self, places: &[Place], attempts: &[Attempted]) {
        for (place, attempt) in places.iter().zip(attempts) {
            self.lanes.recorded(attempt.claimed.endpoint_id, *place);
        }
    }

    /// What is not recorded comes first the next time.
    fn put_back(&mut self, places: Vec<Place>, attempts: Vec<Attempted>) {
        self.made.splice(..0, attempts);
        self.places.splice(..0, places);
    }
}

/// Makes the attempt, or puts the delivery back if it cannot be signed.
async fn attempt(sender: &Sender, claims: &PgPool, claimed: Claimed) -> Tried {
    let (endpoint, signing_failed) = (claimed.endpoint_id, claimed.signing_failed);
    match sender.attempt(claimed).await {
        Outcome::Attempted(attempted) => {
            if signing_failed && let Err(error) = in_time(dispatch::signed_again(claims, endpoint)).await {
                tracing::warn!(%error, %endpoint, "deliveries are signed again, which the next one notes");
            }
            Tried::Attempted(Box::new(attempted))
        }
        Outcome::Unsigned(claimed) => {
            metrics::counter!(UNSIGNED).increment(1);
            tracing::error!(%endpoint, delivery = %claimed.id, "a secret cannot be decrypted, so the delivery is held: was ENCRYPTION_KEY changed?");
            if let Err(error) = in_time(dispatch::hold_unsigned(claims, &claimed)).await {
                tracing::error!(%error, delivery = %claimed.id, "the delivery was not put back; it is due when its lease ends");
            }
            Tried::Held
        }
    }
}

/// The server's own limits do not help where the server is gone without a word: then this is a lost connection.
async fn in_time<T>(statement: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(STATEMENT_LIMIT, statement).await {
        Ok(done) => done,
        Err(_) => Err(Error::Database(sqlx::Error::PoolTimedOut)),
    }
}

/// Whether Postgres will never take it: its classes 22 (data) and 23 (constraints). All else may pass.
fn refuses_the_row(error: &Error) -> bool {
    let Error::Database(error) = error else { return false };
    let code = error.as_database_error().and_then(|said| said.code());
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

/// The value of a future that may not be there; without one, never.
async fn when_some<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

const SUCCEEDED: &str = "succeeded";
/// Deliveries that were held because they could not be signed.
const UNSIGNED: &str = "webhooks_unsigned_total";

/// Counts attempts from nought, so that the first of a kind is seen as a rise.
pub(crate) fn count_from_nought() {
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
