//! What a worker takes by itself, because nobody hands it out: all that is due while Redis does not take ids, and at any
//! time what is overdue, for then no scheduler reaches Redis, whatever this worker sees of it. The claims are the
//! scheduler's, so nothing is done twice.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use common::operations::{self, OVERDUE};
use common::webhooks::dispatch;
use futures_util::{FutureExt, StreamExt, stream};
use queue::{Publisher, Wake};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{COLLECTION_CONCURRENCY, Work};

/// How often a worker looks whether Redis is there, and for what is due when it is not.
const LOOK: Duration = Duration::from_secs(1);
/// How often it looks for what is overdue while Redis is there.
const LOOK_FOR_OVERDUE: Duration = Duration::from_secs(10);

/// Takes what nobody hands out until `stop`; then nothing more is taken, and what has begun may be finished within
/// `patience`. Payments, collections and webhooks do not wait for each other.
pub(crate) async fn run(work: &Arc<Work>, places: usize, stop: impl Future<Output = ()>, patience: Duration) {
    let stopping = CancellationToken::new();
    let (tell, away) = watch::channel(false);
    let looks = || Looks { away: away.clone(), stopping: stopping.clone() };
    let stopped = async {
        stop.await;
        stopping.cancel();
    };
    let working = async {
        tokio::join!(
            stopped,
            look_for_redis(&work.publisher, &tell, &stopping),
            wake_endpoints(work, looks()),
            Taker::new(work, false, places, looks()).perform_all(),
            Taker::new(work, true, COLLECTION_CONCURRENCY, looks()).perform_all(),
        );
    };
    let out_of_patience = async {
        stopping.cancelled().await;
        sleep(patience).await;
    };
    tokio::select! {
        () = working => {}
        () = out_of_patience => tracing::warn!("operations under way were left; recovery takes them up when their leases end"),
    }
}

async fn look_for_redis(publisher: &Publisher, tell: &watch::Sender<bool>, stopping: &CancellationToken) {
    loop {
        let redis = publisher.ping().await;
        metrics::gauge!("redis_up").set(if redis.is_ok() { 1.0 } else { 0.0 });
        let is_away = redis.is_err();
        let is_news = tell.send_if_modified(|away| std::mem::replace(away, is_away) != is_away);
        match redis {
            Err(error) if is_news => {
                tracing::warn!(%error, "Redis takes no ids; what is due is looked for in Postgres")
            }
            Ok(()) if is_news => tracing::info!("Redis takes ids again"),
            _ => {}
        }
        if stopping.run_until_cancelled(sleep(LOOK)).await.is_none() {
            return;
        }
    }
}

async fn wake_endpoints(work: &Work, mut looks: Looks) {
    while let Some(late) = looks.next().await {
        match dispatch::endpoints_due(&work.db, late).await {
            Ok(endpoints) => endpoints.into_iter().for_each(|endpoint| work.wakes.wake(endpoint)),
            Err(error) => tracing::error!(%error, "no endpoints with webhooks to deliver could be looked for"),
        }
    }
}

/// When to look into Postgres, and for what.
struct Looks {
    /// Whether Redis takes no ids.
    away: watch::Receiver<bool>,
    stopping: CancellationToken,
}

impl Looks {
    /// Waits for the next look. For how long must have been due what is taken then? `None` once the process is to stop.
    async fn next(&mut self) -> Option<Duration> {
        let pause = if *self.away.borrow() { LOOK } else { LOOK_FOR_OVERDUE };
        // The first look after Redis has gone does not wait.
        self.stopping.run_until_cancelled(timeout(pause, self.away.changed())).await?.ok();
        Some(self.late())
    }

    fn late(&mut self) -> Duration {
        if *self.away.borrow_and_update() { Duration::ZERO } else { OVERDUE }
    }
}

/// Takes operations of one kind, never more than it can begin at once, so that another worker may take the others.
struct Taker<'a> {
    work: &'a Arc<Work>,
    /// Whether it takes those that nobody waits for.
    background: bool,
    places: Arc<Semaphore>,
    looks: Looks,
    /// The last look has filled all places, so there may be more.
    more: bool,
}

impl<'a> Taker<'a> {
    fn new(work: &'a Arc<Work>, background: bool, places: usize, looks: Looks) -> Self {
        Self { work, background, places: Arc::new(Semaphore::new(places)), looks, more: false }
    }

    async fn perform_all(self) {
        let work = self.work;
        let taken = stream::unfold(self, async |mut taker| Some((taker.take().await?, taker)));
        taken
            .flat_map(stream::iter)
            .for_each_concurrent(None, async |(wake, _place)| {
                let id = wake.id;
                if AssertUnwindSafe(Arc::clone(work).perform(wake)).catch_unwind().await.is_err() {
                    tracing::error!(%id, "a handler panicked");
                }
            })
            .await;
    }

    /// What fills the free places, once there is something to look for and a place is free. `None` once the process is to
    /// stop; what was found by then is begun, for nobody else would find it soon.
    async fn take(&mut self) -> Option<Vec<(Wake, OwnedSemaphorePermit)>> {
        let late = if self.more { self.looks.late() } else { self.looks.next().await? };
        let stopping = self.looks.stopping.clone();
        let mut places = stopping.run_until_cancelled(free_places(&self.places)).await?;
        let most = places.num_permits();
        let due = operations::take_due_of(&self.work.db, self.background, late, most).await.unwrap_or_else(|error| {
            tracing::error!(%error, "what is due could not be looked for; looking again");
            Vec::new()
        });
        self.more = due.len() == most;
        if !due.is_empty() && !late.is_zero() {
            tracing::warn!(count = due.len(), "operations that no scheduler has handed out in time were taken");
        }
        let place =
            |places: &mut OwnedSemaphorePermit| places.split(1).expect("no more were taken than there are places");
        Some(
            due.into_iter()
                .map(|due| (Wake { id: due.id.uuid(), request_id: due.request_id }, place(&mut places)))
                .collect(),
        )
    }
}

/// Waits for a free place, and takes all that are free.
async fn free_places(places: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    const OPEN: &str = "nobody closes the semaphore";
    let mut free = Arc::clone(places).acquire_owned().await.expect(OPEN);
    // Nobody else acquires: what is available now can only become more.
    let more = u32::try_from(places.available_permits()).unwrap_or(u32::MAX);
    free.merge(Arc::clone(places).try_acquire_many_owned(more).expect(OPEN));
    free
}
