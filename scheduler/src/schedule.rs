//! All that can ever fall due, on one screen:
//!
//! | what | how often | index | claim |
//! |---|---|---|---|
//! | operations never taken, abandoned, or unknown | 1 s | `operations_due` | `next_push_at` moved on, 2 s doubling to 30 s |
//! | invoices to collect | 1 s, and 0.1 s while there are more than may be under way | `invoices_collection_due` | the attempt, written under the invoice's lock |
//! | payment links to mark as expired | 1 s | `payment_links_expiry_due` | `SKIP LOCKED`, marked |
//! | charges that may have settled or expired | 1 s | `payments_inquiry_due` | `inquiry_at` moved on by 30 s |
//! | cycles of recurring invoices | 1 s | `recurring_invoices_due` | `SKIP LOCKED`, a cycle in each transaction |
//! | cycles of subscriptions | 1 s | `subscriptions_due` | `SKIP LOCKED`, a cycle in each transaction |
//! | all of these of an account whose test clock is ahead | 1 s | `test_clocks_ahead`, and `…_of_account` of each | the same |
//! | test clocks that are being advanced by nobody | 1 s | `test_clocks_due` | `next_push_at` moved on by 3 s |
//! | endpoints with webhooks to deliver | 1 s | `webhook_pending_due` | the worker's, row by row |
//! | webhooks nobody wants any more | 5 s | `webhook_pending_due` | `SKIP LOCKED`, recorded as failed |
//! | statements to compare with our books | 5 s | `provider_accounts_reconciliation_due` | `reconcile_at` moved on by 60 s |
//! | partitions of the coming months, and of those that nobody needs any more | 1 h | – | `CREATE TABLE IF NOT EXISTS`, `DROP TABLE` |
//! | sessions and tokens that ended a day ago | 5 s | `checkout_sessions_expiry`, `payment_tokens_expiry` | `SKIP LOCKED`, deleted |
//! | nonces whose signatures are too old by now | 5 s | `request_nonces_expiry` | `SKIP LOCKED`, deleted |
//! | figures for dashboards | 5 s | `operations_due`, `operations_unknown`, `orphans_found`, what is due of billing, the webhooks' backlog | none needed |
//! | how large the database is | 1 min | none: sizes of files | none needed |
//!
//! Each scan costs what is due, never the size of the table. A tick that found a whole batch runs again at once.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::accounts::Scope;
use common::clock::Clock;
use common::db::Db;
use common::error::Result;
use common::flows::{COLLECTION_BATCH, RECURRING_BATCH};
use common::operations::{self, Origin, SWEEP_BATCH};
use common::payment_links::{self, EXPIRY_BATCH};
use common::payments::{self, INQUIRY_BATCH};
use common::proof::failpoint;
use common::webhooks::dispatch::{self, CLOSING_BATCH};
use common::{checkout, events, flows, nonces, queues, test_clocks};
use queue::{Publisher, Queue, Wake};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::figures;

/// Batches of unwanted webhooks closed in one tick; the next tick goes on.
const CLOSINGS_A_TICK: usize = 20;
/// Subscriptions looked at together.
const BILLING_BATCH: i64 = 100;
/// Batches of one kind of billing in one tick, so that a backlog of one kind does not hold up the others.
const BILLINGS_A_TICK: usize = 20;

/// Rows forgotten by one statement.
const FORGET_BATCH: i64 = 5_000;
/// Batches of each kind forgotten in one tick: 10,000 rows a second at most, for other ticks wait meanwhile.
const FORGETTINGS_A_TICK: usize = 10;

/// Collections under way at once, of everyone together. Those that are due beyond that wait in Postgres.
const COLLECTIONS_UNDER_WAY: i64 = 1000;

/// Every tick, by the name under which it is counted.
const TICKS: [&str; 17] = [
    "operations",
    "inquiries",
    "reconciliations",
    "collections",
    "clocks",
    "accounts_ahead",
    "recurring_invoices",
    "subscriptions",
    "payment_links",
    "webhooks",
    "unwanted_webhooks",
    "partitions",
    "forget",
    "figures",
    "billing_figures",
    "webhook_figures",
    "size_figures",
];

/// Counts ticks from nought, so that the first failure is seen as a rise, and a tick that never comes is seen to be missing.
pub(crate) fn count_from_nought() {
    for tick in TICKS {
        for outcome in ["ok", "failed", "clock"] {
            metrics::counter!("scheduler_ticks_total", "tick" => tick, "outcome" => outcome).increment(0);
        }
        let _ = metrics::histogram!("scheduler_tick_seconds", "tick" => tick);
    }
    for queue in queues::ALL {
        metrics::counter!("scheduler_handed_out_total", "queue" => queue.name()).increment(0);
    }
}

/// What the ticks need.
pub(crate) struct Scheduler {
    pub(crate) db: Db,
    pub(crate) publisher: Publisher,
    pub(crate) clock: Clock,
    /// Whole months for which events and deliveries are kept.
    pub(crate) retention_months: i32,
    /// Whether Redis took no ids when it was last tried.
    pub(crate) redis_is_away: AtomicBool,
    /// Whether no attempt to collect an invoice is to begin.
    pub(crate) collections_held: bool,
}

impl Scheduler {
    /// Ticks until told to stop; a tick under way is finished. What moves money has a loop of its own: a long backlog of
    /// webhooks or of invoices, or a slow figure, delays no payment.
    pub(crate) async fn run_until(self, stop: impl Future<Output = ()>) {
        let stopping = CancellationToken::new();
        let stopped = async {
            stop.await;
            stopping.cancel();
        };
        tokio::join!(
            stopped,
            self.tick_money(&stopping),
            self.tick_collections(&stopping),
            self.tick_billing(&stopping),
            self.tick_clocks(&stopping),
            self.tick_webhooks(&stopping),
            self.tick_the_rest(&stopping)
        );
    }

    async fn tick_money(&self, stopping: &CancellationToken) {
        let [mut every_second, mut every_5_seconds] = every([1, 5]);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = every_5_seconds.tick() => self.attempt_money("reconciliations", self.hand_out_reconciliations()).await,
                _ = every_second.tick() => {
                    self.attempt_money("operations", self.hand_out_operations()).await;
                    self.attempt_money("inquiries", self.hand_out_inquiries_of_everyone()).await;
                }
            }
        }
    }

    /// Collections have a loop of their own too: a hundred thousand invoices that fall due at once take minutes.
    async fn tick_collections(&self, stopping: &CancellationToken) {
        let mut wait = Duration::ZERO;
        while stopping.run_until_cancelled(sleep(wait)).await.is_some() {
            self.attempt_money("collections", self.collect_invoices()).await;
            let full = operations::in_background(&self.db, COLLECTIONS_UNDER_WAY).await;
            wait = Duration::from_millis(if full.is_ok_and(|n| n >= COLLECTIONS_UNDER_WAY) { 100 } else { 1000 });
        }
    }

    /// Test accounts have a loop of their own: whatever falls due there delays nobody's money.
    async fn tick_clocks(&self, stopping: &CancellationToken) {
        let [mut every_second] = every([1]);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = every_second.tick() => {
                    self.attempt_money("clocks", self.hand_out_clocks()).await;
                    self.attempt_money("accounts_ahead", self.hand_out_of_accounts_ahead()).await;
                }
            }
        }
    }

    async fn tick_billing(&self, stopping: &CancellationToken) {
        let [mut every_second] = every([1]);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = every_second.tick() => {
                    self.attempt_money("recurring_invoices", self.run_recurring_invoices(stopping)).await;
                    self.attempt_money("subscriptions", self.bill_subscriptions(stopping)).await;
                    self.attempt_money("payment_links", self.expire_payment_links()).await;
                }
            }
        }
    }

    async fn tick_webhooks(&self, stopping: &CancellationToken) {
        let [mut every_second, mut every_5_seconds] = every([1, 5]);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = every_5_seconds.tick() => self.attempt("unwanted_webhooks", self.close_unwanted_webhooks()).await,
                _ = every_second.tick() => self.attempt("webhooks", self.hand_out_webhooks()).await,
            }
        }
    }

    async fn tick_the_rest(&self, stopping: &CancellationToken) {
        let [mut every_5_seconds, mut every_minute, mut every_hour] = every([5, 60, 3600]);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = every_hour.tick() => self.attempt("partitions", self.make_partitions()).await,
                _ = every_minute.tick() => self.attempt("size_figures", figures::publish_sizes(self)).await,
                _ = every_5_seconds.tick() => {
                    self.attempt("forget", self.forget()).await;
                    self.attempt("figures", figures::publish(self)).await;
                    self.attempt("billing_figures", figures::publish_billing(self)).await;
                    self.attempt("webhook_figures", figures::publish_webhooks(self)).await;
                }
            }
        }
    }

    /// A tick that moves money, or decides when money moves: none begins while the clock of this machine is wrong. What is due is
    /// left to other schedulers, or until the clock is right.
    async fn attempt_money(&self, tick: &'static str, work: impl Future<Output = Result<()>>) {
        match self.clock.verify(&self.db).await {
            Ok(()) => self.attempt(tick, work).await,
            Err(_) => metrics::counter!("scheduler_ticks_total", "tick" => tick, "outcome" => "clock").increment(1),
        }
    }

    /// A failed tick is logged and counted; the next one finds the same work again.
    async fn attempt(&self, tick: &'static str, work: impl Future<Output = Result<()>>) {
        let began = Instant::now();
        let outcome = match work.await {
            Ok(()) => "ok",
            Err(error) => {
                tracing::error!(tick, %error, "a tick failed; the next one does its work");
                "failed"
            }
        };
        metrics::counter!("scheduler_ticks_total", "tick" => tick, "outcome" => outcome).increment(1);
        metrics::histogram!("scheduler_tick_seconds", "tick" => tick).record(began.elapsed().as_secs_f64());
    }

    async fn hand_out_operations(&self) -> Result<()> {
        // Without Redis workers look for what is due by themselves, at once if they see it too, or else once it is overdue. What
        // was taken here and not pushed would be put off, and its client would wait for that.
        if !self.redis_takes_ids().await {
            return Ok(());
        }
        loop {
            let due = operations::take_due(&self.db).await?;
            let handed_out = due.len();
            let (background, others): (Vec<_>, Vec<_>) = due.into_iter().partition(|due| due.background);
            for (queue, due) in [(queues::MONEY, others), (queues::COLLECTIONS, background)] {
                let wakes: Vec<_> =
                    due.into_iter().map(|due| Wake { id: due.id.uuid(), request_id: due.request_id }).collect();
                self.push(queue, &wakes).await?;
            }
            if i64::try_from(handed_out).is_ok_and(|n| n < SWEEP_BATCH) {
                return Ok(());
            }
        }
    }

    async fn redis_takes_ids(&self) -> bool {
        let redis = self.publisher.ping().await;
        metrics::gauge!("redis_up").set(if redis.is_ok() { 1.0 } else { 0.0 });
        let was_away = self.redis_is_away.swap(redis.is_err(), Ordering::Relaxed);
        match &redis {
            Err(error) if !was_away => tracing::warn!(%error, "Redis takes no ids; operations are left to the workers"),
            Ok(()) if was_away => tracing::info!("Redis takes ids again"),
            _ => {}
        }
        redis.is_ok()
    }

    async fn collect_invoices(&self) -> Result<()> {
        loop {
            if self.collections_held {
                return Ok(());
            }
            let room = COLLECTIONS_UNDER_WAY - operations::in_background(&self.db, COLLECTIONS_UNDER_WAY).await?;
            let batch = room.min(COLLECTION_BATCH);
            if batch == 0 {
                return Ok(());
            }
            if self.collect(Scope::everyone(&self.db).await?, batch).await? < batch {
                return Ok(());
            }
        }
    }

    /// Begins attempts, so many at most, and answers how many invoices were due.
    async fn collect(&self, scope: Scope, batch: i64) -> Result<i64> {
        let collecting = flows::collect_due_invoices(&self.db, scope, batch, &Origin::default()).await?;
        self.hand_out(queues::COLLECTIONS, collecting.begun.iter().map(|begun| begun.operation.uuid())).await?;
        Ok(i64::try_from(collecting.due).unwrap_or(i64::MAX))
    }

    async fn hand_out_inquiries_of_everyone(&self) -> Result<()> {
        self.hand_out_inquiries(Scope::everyone(&self.db).await?).await
    }

    async fn hand_out_inquiries(&self, scope: Scope) -> Result<()> {
        loop {
            let due = payments::take_due_inquiries(&self.db, scope).await?;
            self.hand_out(queues::INQUIRIES, due.iter().map(|id| id.uuid())).await?;
            if i64::try_from(due.len()).is_ok_and(|n| n < INQUIRY_BATCH) {
                return Ok(());
            }
        }
    }

    /// What is due by the clocks of accounts that are ahead of everyone's time, account by account.
    /// What cannot be done for one account keeps no other waiting.
    async fn hand_out_of_accounts_ahead(&self) -> Result<()> {
        for ahead in flows::accounts_ahead_with_due(&self.db).await? {
            if let Err(error) = self.do_what_is_due(Scope::Account(ahead.account, ahead.now)).await {
                tracing::error!(account = %ahead.account, %error, "what is due by a test clock was not done; the next tick does it");
            }
        }
        Ok(())
    }

    async fn do_what_is_due(&self, account: Scope) -> Result<()> {
        flows::run_due_recurring_invoices(&self.db, account, RECURRING_BATCH).await?;
        flows::run_due_subscriptions(&self.db, account, BILLING_BATCH).await?;
        if !self.collections_held {
            let room = COLLECTIONS_UNDER_WAY - operations::in_background(&self.db, COLLECTIONS_UNDER_WAY).await?;
            // Most of the room is left to everyone's.
            self.collect(account, (room / 10).min(COLLECTION_BATCH)).await?;
        }
        payment_links::run_due_payment_links(&self.db, account, EXPIRY_BATCH).await?;
        self.hand_out_inquiries(account).await
    }

    async fn hand_out_clocks(&self) -> Result<()> {
        let due = test_clocks::take_due(&self.db).await?;
        self.hand_out(queues::CLOCKS, due.iter().map(|id| id.uuid())).await
    }

    async fn hand_out_reconciliations(&self) -> Result<()> {
        loop {
            let due = flows::take_due_reconciliations(&self.db).await?;
            self.hand_out(queues::RECONCILIATIONS, due.of.iter().map(|id| id.uuid())).await?;
            if !due.more {
                return Ok(());
            }
        }
    }

    async fn bill_subscriptions(&self, stopping: &CancellationToken) -> Result<()> {
        for _ in 0..BILLINGS_A_TICK {
            let everyone = Scope::everyone(&self.db).await?;
            // One that has missed several cycles has its next one in the next batch.
            if flows::run_due_subscriptions(&self.db, everyone, BILLING_BATCH).await? == 0 || stopping.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    async fn expire_payment_links(&self) -> Result<()> {
        loop {
            let everyone = Scope::everyone(&self.db).await?;
            let expired = payment_links::run_due_payment_links(&self.db, everyone, EXPIRY_BATCH).await?;
            if i64::try_from(expired).is_ok_and(|n| n < EXPIRY_BATCH) {
                return Ok(());
            }
        }
    }

    async fn hand_out_webhooks(&self) -> Result<()> {
        let due = dispatch::endpoints_due(&self.db, Duration::ZERO).await?;
        self.hand_out(queues::WEBHOOKS, due.iter().map(|id| id.uuid())).await
    }

    async fn close_unwanted_webhooks(&self) -> Result<()> {
        batches(CLOSINGS_A_TICK, CLOSING_BATCH, || dispatch::close_unwanted(&self.db)).await?;
        batches(CLOSINGS_A_TICK, CLOSING_BATCH, || dispatch::close_forgotten(&self.db)).await
    }

    async fn run_recurring_invoices(&self, stopping: &CancellationToken) -> Result<()> {
        for _ in 0..BILLINGS_A_TICK {
            let everyone = Scope::everyone(&self.db).await?;
            let found = flows::run_due_recurring_invoices(&self.db, everyone, RECURRING_BATCH).await?;
            // One that has missed several cycles has its next one in the next batch.
            if found == 0 || stopping.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    async fn hand_out(&self, queue: Queue, ids: impl Iterator<Item: Into<Wake>>) -> Result<()> {
        self.push(queue, &ids.map(Into::into).collect::<Vec<_>>()).await
    }

    async fn push(&self, queue: Queue, wakes: &[Wake]) -> Result<()> {
        if wakes.is_empty() {
            return Ok(());
        }
        failpoint("schedule.taken").await?;
        metrics::counter!("scheduler_handed_out_total", "queue" => queue.name()).increment(wakes.len() as u64);
        if let Err(error) = self.publisher.push(queue, wakes).await {
            tracing::warn!(queue = queue.name(), count = wakes.len(), %error, "not pushed; handed out again at their next turn");
        }
        Ok(())
    }

    async fn make_partitions(&self) -> Result<()> {
        let made = events::ensure_partitions(&self.db).await?;
        if made > 0 {
            tracing::info!(made, "partitions made for the coming months");
        }
        let dropped = events::drop_partitions(&self.db, self.retention_months).await?;
        if dropped > 0 {
            tracing::info!(
                dropped,
                months = self.retention_months,
                "partitions dropped: nobody needs their months any more"
            );
        }
        Ok(())
    }

    async fn forget(&self) -> Result<()> {
        batches(FORGETTINGS_A_TICK, FORGET_BATCH, || checkout::forget_sessions(&self.db, FORGET_BATCH)).await?;
        batches(FORGETTINGS_A_TICK, FORGET_BATCH, || checkout::forget_tokens(&self.db, FORGET_BATCH)).await?;
        batches(FORGETTINGS_A_TICK, FORGET_BATCH, || nonces::forget_expired(&self.db, FORGET_BATCH)).await
    }
}

/// Does batch after batch for as long as they are whole ones, and so many at most; the next tick goes on.
async fn batches(most: usize, rows: i64, each: impl AsyncFn() -> Result<u64>) -> Result<()> {
    for _ in 0..most {
        if each().await? < rows.unsigned_abs() {
            break;
        }
    }
    Ok(())
}

/// Timers that skip the ticks they missed.
fn every<const N: usize>(seconds: [u64; N]) -> [Interval; N] {
    seconds.map(|seconds| {
        let mut ticks = interval(Duration::from_secs(seconds));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    })
}
