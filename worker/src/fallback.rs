//! Polls Postgres for work when the queue does not deliver it: for everything that is due while Redis is unavailable,
//! and for overdue work at any time, because then no scheduler reaches Redis, whatever this worker observes. It uses
//! the scheduler's claims, so nothing runs twice.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::charges::{self, OVERDUE};
use domain::webhooks::dispatch;
use futures_util::{FutureExt, StreamExt, stream};
use queue::{Publisher, Wake, acquire_free};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{COLLECTION_CONCURRENCY, WorkerState};

/// Interval of the Redis check, and of polls for due work while Redis is unavailable.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of polls for overdue work while Redis is available.
const OVERDUE_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Polls until `stop`, then finishes running operations within `drain_timeout`. Payments, collections and webhooks do
/// not wait for each other.
pub(crate) async fn run(
    state: &Arc<WorkerState>,
    concurrency: usize,
    stop: impl Future<Output = ()>,
    drain_timeout: Duration,
) {
    let stopping = CancellationToken::new();
    let (redis_status, redis_is_down) = watch::channel(false);
    let polls = || Polls { redis_is_down: redis_is_down.clone(), stopping: stopping.clone() };
    let stopped = async {
        stop.await;
        stopping.cancel();
    };
    let working = async {
        tokio::join!(
            stopped,
            monitor_redis(&state.publisher, &redis_status, &stopping),
            wake_endpoints(state, polls()),
            FallbackPoller::new(state, false, concurrency, polls()).perform_all(),
            FallbackPoller::new(state, true, COLLECTION_CONCURRENCY, polls()).perform_all(),
        );
    };
    let drain_deadline = async {
        stopping.cancelled().await;
        sleep(drain_timeout).await;
    };
    tokio::select! {
        () = working => {}
        () = drain_deadline => {
            tracing::warn!("stopped with operations still running; recovery continues them when their leases expire");
        }
    }
}

async fn monitor_redis(publisher: &Publisher, redis_status: &watch::Sender<bool>, stopping: &CancellationToken) {
    loop {
        let ping = publisher.ping().await;
        metrics::gauge!("redis_up").set(if ping.is_ok() { 1.0 } else { 0.0 });
        let is_down = ping.is_err();
        let changed = redis_status.send_if_modified(|was_down| std::mem::replace(was_down, is_down) != is_down);
        match ping {
            Err(error) if changed => {
                tracing::warn!(%error, "Redis is unavailable; polling Postgres for due work")
            }
            Ok(()) if changed => tracing::info!("Redis is available again"),
            _ => {}
        }
        if stopping.run_until_cancelled(sleep(POLL_INTERVAL)).await.is_none() {
            return;
        }
    }
}

async fn wake_endpoints(state: &WorkerState, mut polls: Polls) {
    while let Some(min_delay) = polls.next().await {
        match dispatch::endpoints_due(&state.db, min_delay).await {
            Ok(endpoints) => endpoints.into_iter().for_each(|endpoint| state.wakes.wake(endpoint)),
            Err(error) => tracing::error!(%error, "could not query the endpoints with due webhooks"),
        }
    }
}

/// When to poll Postgres, and for which work.
struct Polls {
    redis_is_down: watch::Receiver<bool>,
    stopping: CancellationToken,
}

impl Polls {
    /// Waits for the next poll and returns how long work must have been due to be taken. `None` when the process stops.
    async fn next(&mut self) -> Option<Duration> {
        let interval = if *self.redis_is_down.borrow() { POLL_INTERVAL } else { OVERDUE_POLL_INTERVAL };
        // A change of the Redis status triggers a poll at once.
        self.stopping.run_until_cancelled(timeout(interval, self.redis_is_down.changed())).await?.ok();
        Some(self.min_delay())
    }

    fn min_delay(&mut self) -> Duration {
        if *self.redis_is_down.borrow_and_update() { Duration::ZERO } else { OVERDUE }
    }
}

/// Takes operations of one kind, never more than it can start at once: other workers may take the rest.
struct FallbackPoller<'a> {
    state: &'a Arc<WorkerState>,
    /// Whether it takes background operations, for which no request waits.
    background: bool,
    slots: Arc<Semaphore>,
    polls: Polls,
    /// The last poll filled all free slots, so more work may be due.
    more: bool,
}

impl<'a> FallbackPoller<'a> {
    fn new(state: &'a Arc<WorkerState>, background: bool, concurrency: usize, polls: Polls) -> Self {
        Self { state, background, slots: Arc::new(Semaphore::new(concurrency)), polls, more: false }
    }

    async fn perform_all(self) {
        let state = self.state;
        let batches = stream::unfold(self, async |mut poller| Some((poller.take().await?, poller)));
        batches
            .flat_map(stream::iter)
            .for_each_concurrent(None, async |(wake, _slot)| {
                let id = wake.id;
                if AssertUnwindSafe(Arc::clone(state).perform(wake)).catch_unwind().await.is_err() {
                    tracing::error!(%id, "a handler panicked");
                }
            })
            .await;
    }

    /// Takes due operations for the free slots, at the next poll and once a slot is free. `None` when the process
    /// stops; operations already taken are still performed, because no other worker would find them soon.
    async fn take(&mut self) -> Option<Vec<(Wake, OwnedSemaphorePermit)>> {
        let min_delay = if self.more { self.polls.min_delay() } else { self.polls.next().await? };
        let stopping = self.polls.stopping.clone();
        let mut slots = stopping.run_until_cancelled(acquire_free(&self.slots)).await?;
        let limit = slots.num_permits();
        let due = charges::take_due(&self.state.db, Some(self.background), min_delay, limit).await;
        let due = due.unwrap_or_else(|error| {
            tracing::error!(%error, "could not query due operations; trying again");
            Vec::new()
        });
        self.more = due.len() == limit;
        if !due.is_empty() && !min_delay.is_zero() {
            tracing::warn!(count = due.len(), "took operations that no scheduler enqueued in time");
        }
        let slot = |slots: &mut OwnedSemaphorePermit| slots.split(1).expect("no more operations than slots");
        Some(
            due.into_iter()
                .map(|due| (Wake { id: due.id.uuid(), request_id: due.request_id }, slot(&mut slots)))
                .collect(),
        )
    }
}
