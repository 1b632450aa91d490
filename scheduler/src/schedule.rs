//! Everything that can fall due, at a glance:
//!
//! | work | interval | index | claim |
//! |---|---|---|---|
//! | operations that were never taken, were abandoned, or have an unknown outcome | 1 s | `operations_due` | `next_push_at` moved forward, from 2 s doubling to 30 s |
//! | invoices to collect | 1 s; 25 ms while `MAX_COLLECTIONS` are in progress | `invoices_collection_due` | the attempt, written under the invoice's lock; what cannot be read or collected is due again after 10 minutes |
//! | payment links to mark as expired | 1 s | `payment_links_expiry_due` | `SKIP LOCKED`, marked |
//! | charges that may have settled or expired, or whose dispute may be decided | 1 s | `payments_inquiry_due` | `inquiry_at` moved forward by 30 s |
//! | cycles of recurring invoices | 1 s | `recurring_invoices_due` | `SKIP LOCKED`, a batch of cycles per transaction; what cannot be read is due again after 10 minutes |
//! | cycles of subscriptions | 1 s | `subscriptions_due` | `SKIP LOCKED`, a batch of cycles per transaction |
//! | the above for accounts whose test clock is ahead | 1 s | `test_clocks_ahead`, and the `…_of_account` index of each | the same |
//! | advances of test clocks without a worker | 1 s | `test_clocks_due` | `next_push_at` moved forward by 3 s |
//! | endpoints with webhooks to deliver | 1 s | `webhook_pending_due` | the worker's, row by row |
//! | webhooks that can no longer be delivered | 5 s | `webhook_pending_due` | `SKIP LOCKED`, recorded as failed |
//! | provider statements to reconcile | 5 s | `provider_accounts_reconciliation_due` | `reconcile_at` moved forward by 60 s |
//! | partitions to create for the coming months, and to drop after retention | 1 h | – | `CREATE TABLE IF NOT EXISTS`, `DROP TABLE` |
//! | the oldest day of the request log | 1 h | – | `TRUNCATE` |
//! | sessions and tokens that ended a day ago | 5 s | `checkout_sessions_expiry`, `payment_tokens_expiry` | `SKIP LOCKED`, deleted |
//! | sessions of the portal's users that have ended, challenges of passkeys that have expired, secrets that were not shown | 5 s | `user_sessions_created`, `user_sign_ins_created`, `user_passkey_challenges_created`, `user_actions_with_secret` | `SKIP LOCKED` |
//! | e-mails that ended a month ago | 5 s | `mails_ended` | `SKIP LOCKED`, deleted |
//! | figures of accounts for the portal | 5 s | `figure_cursors_due` | `SKIP LOCKED`, a cursor per account |
//! | changes of what accounts have at present, for the portal | 5 s | none: all rows | `SKIP LOCKED`, deleted |
//! | nonces of expired signatures | 5 s | `request_nonces_expiry` | `SKIP LOCKED`, deleted |
//! | tables to analyze, because they have grown | 1 s | none: file sizes | `ANALYZE` |
//! | gauges for dashboards | 5 s | `operations_due`, `operations_unknown`, `orphans_found`, those of billing and of pending webhooks | not needed |
//! | the database's size | 1 min | none: file sizes | not needed |
//!
//! The cost of a scan depends on the number of due rows, never on the size of the table. A tick whose batch was full
//! repeats at once.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::accounts::Scope;
use domain::charges::{self, SWEEP_BATCH};
use domain::checkout;
use domain::events;
use domain::figures;
use domain::mails;
use domain::nonces;
use domain::operations::{self, Origin};
use domain::payment_links::{self, EXPIRY_BATCH};
use domain::payments::{self, INQUIRY_BATCH};
use domain::requests;
use domain::test_clocks;
use domain::users;
use domain::webhooks::dispatch::{self, CLOSING_BATCH};
use engine::COLLECTION_BATCH;
use engine::RECURRING_BATCH;
use foundation::clock::Clock;
use foundation::db::{self, Db};
use foundation::error::Result;
use foundation::failpoint;
use foundation::queues;
use queue::{Publisher, Queue, Wake};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::gauges;
use crate::ticks::batches;

/// The next tick continues with the rest.
const CLOSE_BATCHES_PER_TICK: usize = 20;
/// Cycles of subscriptions per batch.
const BILLING_BATCH: i64 = 100;
/// Limits each kind of billing, so that a backlog of one does not delay the others.
const BILLING_BATCHES_PER_TICK: usize = 40;

/// Accounts whose figures are brought up to date one after the other, a batch of events each.
const FIGURE_ACCOUNTS: i64 = 20;
const FIGURE_BATCHES_PER_TICK: usize = 5;
/// Changes of what accounts have at present that one statement adds: 10,000 a second, five times what billing creates.
const FIGURE_CHANGES: i64 = 5_000;
const CHANGE_BATCHES_PER_TICK: usize = 10;

/// Rows deleted by one statement.
const CLEANUP_BATCH: i64 = 5_000;
/// At most 10,000 rows a second of each kind, because the other ticks of the loop wait for it.
const CLEANUP_BATCHES_PER_TICK: usize = 10;

/// Collections in progress over all accounts. Further due invoices wait in Postgres.
const MAX_COLLECTIONS: i64 = 1000;
/// The pause before the number in progress is counted again.
const COLLECTION_BACKLOG_PAUSE: Duration = Duration::from_millis(25);

type Work<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;
type Begin = for<'a> fn(&'a Scheduler, &'a CancellationToken) -> Work<'a>;

/// Work that is looked for at an interval.
struct Tick {
    /// Its metric label.
    name: &'static str,
    interval: Duration,
    moves_money: bool,
    begin: Begin,
}

const fn tick(name: &'static str, seconds: u64, begin: Begin) -> Tick {
    Tick { name, interval: Duration::from_secs(seconds), moves_money: false, begin }
}

/// A tick that moves money or schedules it.
const fn money(name: &'static str, seconds: u64, begin: Begin) -> Tick {
    Tick { name, interval: Duration::from_secs(seconds), moves_money: true, begin }
}

/// The ticks of each loop. Payments have a loop of their own, so that a backlog of webhooks or invoices, or a slow query
/// for gauges, does not delay them; so have test clocks, whose due work must not delay live payments.
const LOOPS: [&[Tick]; 6] = [
    &[
        money("reconciliations", 5, |s, _| Box::pin(s.hand_out_reconciliations())),
        money("operations", 1, |s, _| Box::pin(s.hand_out_operations())),
        money("inquiries", 1, |s, _| Box::pin(s.hand_out_all_inquiries())),
    ],
    &[
        money("clocks", 1, |s, _| Box::pin(s.hand_out_clocks())),
        money("advanced_clocks", 1, |s, _| Box::pin(s.run_due_work_of_advanced_clocks())),
    ],
    &[
        money("recurring_invoices", 1, |s, stopping| Box::pin(s.run_recurring_invoices(stopping))),
        money("subscriptions", 1, |s, stopping| Box::pin(s.bill_subscriptions(stopping))),
        money("payment_links", 1, |s, _| Box::pin(s.expire_payment_links())),
    ],
    &[
        tick("undeliverable_webhooks", 5, |s, _| Box::pin(s.close_undeliverable_webhooks())),
        tick("webhooks", 1, |s, _| Box::pin(s.hand_out_webhooks())),
    ],
    &[tick("figures", 5, |s, _| Box::pin(s.update_figures()))],
    &[
        tick("partitions", 3600, |s, _| Box::pin(s.maintain_partitions())),
        tick("request_log", 3600, |s, _| Box::pin(s.clear_requests())),
        tick("size_gauges", 60, |s, _| Box::pin(gauges::publish_sizes(&s.db))),
        tick("statistics", 1, |s, _| Box::pin(s.analyze_grown_tables())),
        tick("cleanup", 5, |s, _| Box::pin(s.clean_up())),
        tick("gauges", 5, |s, _| Box::pin(gauges::publish(&s.db, &s.publisher))),
        tick("billing_gauges", 5, |s, _| Box::pin(gauges::publish_billing(&s.db, s.clock.now()))),
        tick("webhook_gauges", 5, |s, _| Box::pin(gauges::publish_webhooks(&s.db))),
    ],
];
/// The tick of [`Scheduler::collection_loop`].
const COLLECTIONS: &str = "collections";

/// Registers the counters at zero, so that the first failure is visible as an increase, and a tick that never runs is
/// noticed.
pub(crate) fn register_metrics() {
    for tick in LOOPS.into_iter().flatten().map(|tick| tick.name).chain([COLLECTIONS]) {
        for outcome in ["ok", "failed", "clock"] {
            metrics::counter!("scheduler_ticks_total", "tick" => tick, "outcome" => outcome).increment(0);
        }
        let _ = metrics::histogram!("scheduler_tick_seconds", "tick" => tick);
    }
    for queue in queues::ALL {
        metrics::counter!("scheduler_handed_out_total", "queue" => queue.name()).increment(0);
    }
}

pub(crate) struct Scheduler {
    pub(crate) db: Db,
    pub(crate) publisher: Publisher,
    pub(crate) clock: Clock,
    /// Whole months for which events and deliveries are kept.
    pub(crate) retention_months: i32,
    /// Whether the last ping of Redis failed.
    pub(crate) redis_was_down: AtomicBool,
    /// Whether collection attempts are suspended (`COLLECTIONS_HELD`).
    pub(crate) collections_held: bool,
}

impl Scheduler {
    /// Runs all loops until `stop`; running ticks finish.
    pub(crate) async fn run_until(self, stop: impl Future<Output = ()>) {
        let stopping = CancellationToken::new();
        let stopped = async {
            stop.await;
            stopping.cancel();
        };
        let [payments, clocks, billing, webhooks, figures, maintenance] =
            LOOPS.map(|ticks| self.run_loop(ticks, &stopping));
        let collections = self.collection_loop(&stopping);
        tokio::join!(stopped, payments, collections, clocks, billing, webhooks, figures, maintenance);
    }

    /// Runs these ticks one after the other, each when it is due. A late tick delays its next one.
    async fn run_loop(&self, ticks: &[Tick], stopping: &CancellationToken) {
        let mut due = vec![Instant::now(); ticks.len()];
        while let Some(next) = due.iter().min().copied()
            && stopping.run_until_cancelled(sleep_until(next)).await.is_some()
        {
            for (tick, due) in ticks.iter().zip(&mut due) {
                let now = Instant::now();
                if *due <= now && !stopping.is_cancelled() {
                    *due = now + tick.interval;
                    let work = (tick.begin)(self, stopping);
                    match tick.moves_money {
                        true => self.run_if_clock_is_correct(tick.name, work).await,
                        false => self.run(tick.name, work).await,
                    }
                }
            }
        }
    }

    /// A separate loop: a hundred thousand invoices that fall due at once take minutes.
    async fn collection_loop(&self, stopping: &CancellationToken) {
        let mut wait = Duration::ZERO;
        while stopping.run_until_cancelled(sleep(wait)).await.is_some() {
            wait = Duration::from_secs(1);
            let collect = async {
                if self.collect_invoices().await? {
                    wait = COLLECTION_BACKLOG_PAUSE;
                }
                Ok(())
            };
            self.run_if_clock_is_correct(COLLECTIONS, collect).await;
        }
    }

    /// For ticks that move money or schedule it: they are skipped while this host's clock is wrong. Due work is left to
    /// other schedulers, or waits until the clock is correct.
    async fn run_if_clock_is_correct(&self, tick: &'static str, work: impl Future<Output = Result<()>>) {
        match self.clock.verify(&self.db).await {
            Ok(()) => self.run(tick, work).await,
            Err(_) => metrics::counter!("scheduler_ticks_total", "tick" => tick, "outcome" => "clock").increment(1),
        }
    }

    /// Logs and counts a failed tick; the next one finds the same work.
    async fn run(&self, tick: &'static str, work: impl Future<Output = Result<()>>) {
        let started = Instant::now();
        let outcome = match work.await {
            Ok(()) => "ok",
            Err(error) => {
                tracing::error!(tick, %error, "a tick failed; the next one retries its work");
                "failed"
            }
        };
        metrics::counter!("scheduler_ticks_total", "tick" => tick, "outcome" => outcome).increment(1);
        metrics::histogram!("scheduler_tick_seconds", "tick" => tick).record(started.elapsed().as_secs_f64());
    }

    async fn hand_out_operations(&self) -> Result<()> {
        // Without Redis workers poll Postgres: at once if they notice the outage too, otherwise when work is overdue.
        // Operations claimed here and not pushed would be delayed until they are due again, and so would their clients.
        if !self.redis_is_up().await {
            return Ok(());
        }
        loop {
            let due = charges::take_due(&self.db, None, Duration::ZERO, SWEEP_BATCH).await?;
            let handed_out = due.len();
            let (background, others): (Vec<_>, Vec<_>) = due.into_iter().partition(|due| due.background);
            for (queue, due) in [(queues::PAYMENTS, others), (queues::COLLECTIONS, background)] {
                let wakes: Vec<_> =
                    due.into_iter().map(|due| Wake { id: due.id.uuid(), request_id: due.request_id }).collect();
                self.push(queue, &wakes).await?;
            }
            if handed_out < SWEEP_BATCH {
                return Ok(());
            }
        }
    }

    async fn redis_is_up(&self) -> bool {
        let redis = self.publisher.ping().await;
        metrics::gauge!("redis_up").set(if redis.is_ok() { 1.0 } else { 0.0 });
        let was_down = self.redis_was_down.swap(redis.is_err(), Ordering::Relaxed);
        match &redis {
            Err(error) if !was_down => {
                tracing::warn!(%error, "Redis is unavailable; workers poll Postgres for due operations");
            }
            Ok(()) if was_down => tracing::info!("Redis is available again"),
            _ => {}
        }
        redis.is_ok()
    }

    /// Returns whether it stopped because of [`MAX_COLLECTIONS`]. Only whole batches are begun, because a small one
    /// costs as much.
    async fn collect_invoices(&self) -> Result<bool> {
        if self.collections_held {
            return Ok(false);
        }
        loop {
            let in_progress = operations::count_background(&self.db, MAX_COLLECTIONS).await?;
            if in_progress + COLLECTION_BATCH > MAX_COLLECTIONS {
                return Ok(true);
            }
            if self.collect(Scope::all_accounts(&self.db).await?, COLLECTION_BATCH).await? < COLLECTION_BATCH {
                return Ok(false);
            }
        }
    }

    /// Starts at most `batch` attempts and returns how many invoices were due.
    async fn collect(&self, scope: Scope, batch: i64) -> Result<i64> {
        let collecting = engine::collect_due_invoices(&self.db, scope, batch, &Origin::default()).await?;
        self.hand_out(queues::COLLECTIONS, collecting.begun.iter().map(|begun| begun.operation.uuid())).await?;
        Ok(i64::try_from(collecting.due).unwrap_or(i64::MAX))
    }

    async fn hand_out_all_inquiries(&self) -> Result<()> {
        self.hand_out_inquiries(Scope::all_accounts(&self.db).await?).await
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

    /// Runs the work that is due by test clocks ahead of real time, account by account. A failure affects only its
    /// account.
    async fn run_due_work_of_advanced_clocks(&self) -> Result<()> {
        for ahead in engine::advanced_clocks_with_due_work(&self.db).await? {
            if let Err(error) = self.run_due_work(Scope::Account(ahead.account, ahead.now)).await {
                tracing::error!(account = %ahead.account, %error, "could not run the work due by a test clock; the next tick retries it");
            }
        }
        Ok(())
    }

    async fn run_due_work(&self, account: Scope) -> Result<()> {
        engine::run_due_recurring_invoices(&self.db, account, RECURRING_BATCH).await?;
        engine::run_due_subscriptions(&self.db, account, BILLING_BATCH).await?;
        if !self.collections_held {
            let capacity = MAX_COLLECTIONS - operations::count_background(&self.db, MAX_COLLECTIONS).await?;
            // Most of the capacity is reserved for accounts without a test clock.
            self.collect(account, (capacity / 10).min(COLLECTION_BATCH)).await?;
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
            let due = engine::take_due_reconciliations(&self.db).await?;
            self.hand_out(queues::RECONCILIATIONS, due.provider_accounts.iter().map(|id| id.uuid())).await?;
            if !due.more {
                return Ok(());
            }
        }
    }

    async fn bill_subscriptions(&self, stopping: &CancellationToken) -> Result<()> {
        for _ in 0..BILLING_BATCHES_PER_TICK {
            let scope = Scope::all_accounts(&self.db).await?;
            // A subscription that missed several cycles gets its next one in the next batch.
            if engine::run_due_subscriptions(&self.db, scope, BILLING_BATCH).await? == 0 || stopping.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    async fn expire_payment_links(&self) -> Result<()> {
        loop {
            let scope = Scope::all_accounts(&self.db).await?;
            let expired = payment_links::run_due_payment_links(&self.db, scope, EXPIRY_BATCH).await?;
            if i64::try_from(expired).is_ok_and(|n| n < EXPIRY_BATCH) {
                return Ok(());
            }
        }
    }

    async fn hand_out_webhooks(&self) -> Result<()> {
        let due = dispatch::endpoints_due(&self.db, Duration::ZERO).await?;
        self.hand_out(queues::WEBHOOKS, due.iter().map(|id| id.uuid())).await
    }

    async fn close_undeliverable_webhooks(&self) -> Result<()> {
        batches(CLOSE_BATCHES_PER_TICK, CLOSING_BATCH, || dispatch::close_undeliverable(&self.db)).await?;
        batches(CLOSE_BATCHES_PER_TICK, CLOSING_BATCH, || dispatch::close_expired(&self.db)).await
    }

    async fn run_recurring_invoices(&self, stopping: &CancellationToken) -> Result<()> {
        for _ in 0..BILLING_BATCHES_PER_TICK {
            let scope = Scope::all_accounts(&self.db).await?;
            let due = engine::run_due_recurring_invoices(&self.db, scope, RECURRING_BATCH).await?;
            // A recurring invoice that missed several cycles gets its next one in the next batch.
            if due == 0 || stopping.is_cancelled() {
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
        failpoint!("schedule.claimed");
        metrics::counter!("scheduler_handed_out_total", "queue" => queue.name()).increment(wakes.len() as u64);
        if let Err(error) = self.publisher.push(queue, wakes).await {
            tracing::warn!(
                queue = queue.name(), count = wakes.len(), %error,
                "could not push to the queue; enqueued again when due"
            );
        }
        Ok(())
    }

    async fn maintain_partitions(&self) -> Result<()> {
        let created = events::ensure_partitions(&self.db).await?;
        if created > 0 {
            tracing::info!(created, "created partitions for the coming months");
        }
        let dropped = events::drop_partitions(&self.db, self.retention_months).await?;
        if dropped > 0 {
            tracing::info!(dropped, months = self.retention_months, "dropped partitions past the retention period");
        }
        Ok(())
    }

    async fn clear_requests(&self) -> Result<()> {
        if requests::clear_oldest(&self.db).await? {
            tracing::info!("emptied the oldest part of the request log");
        }
        Ok(())
    }

    async fn analyze_grown_tables(&self) -> Result<()> {
        let analyzed = db::analyze_grown_tables(&self.db).await?;
        if analyzed > 0 {
            tracing::info!(analyzed, "analyzed tables that have grown");
        }
        Ok(())
    }

    async fn update_figures(&self) -> Result<()> {
        let add = || figures::add_standing_changes(&self.db, FIGURE_CHANGES);
        let added = batches(CHANGE_BATCHES_PER_TICK, FIGURE_CHANGES, add).await;
        // Also if that has failed: these figures do not need those.
        batches(FIGURE_BATCHES_PER_TICK, FIGURE_ACCOUNTS, || figures::update_due(&self.db, FIGURE_ACCOUNTS)).await?;
        added
    }

    async fn clean_up(&self) -> Result<()> {
        batches(CLEANUP_BATCHES_PER_TICK, CLEANUP_BATCH, || checkout::delete_expired_sessions(&self.db, CLEANUP_BATCH))
            .await?;
        batches(CLEANUP_BATCHES_PER_TICK, CLEANUP_BATCH, || checkout::delete_expired_tokens(&self.db, CLEANUP_BATCH))
            .await?;
        batches(CLEANUP_BATCHES_PER_TICK, CLEANUP_BATCH, || nonces::delete_expired(&self.db, CLEANUP_BATCH)).await?;
        batches(CLEANUP_BATCHES_PER_TICK, CLEANUP_BATCH, || mails::delete_ended(&self.db, CLEANUP_BATCH)).await?;
        batches(CLEANUP_BATCHES_PER_TICK, CLEANUP_BATCH, || users::clean_up(&self.db, CLEANUP_BATCH)).await
    }
}
