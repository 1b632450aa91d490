//! Advances a test clock. The clock stops at each due instant in turn until it reaches its target; at each instant
//! everything due is run in the order of [`KINDS`].
//!
//! An interrupted advance continues from the clock's current time: work is claimed row by row, and finished work is no
//! longer due. So it may be killed at any point, and two workers on it do nothing twice.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use sqlx::PgPool;
use tokio::time::{Instant, sleep};

use crate::billing::run_recurring_invoices::run_due_recurring_invoices;
use crate::billing::run_subscriptions::run_due_subscriptions;
use crate::charge::intent::collect_invoices::collect_due_invoices;
use crate::reconcile::inquire::inquire;
use domain::accounts::Scope;
use domain::invoices;
use domain::operations::{self, Origin, State};
use domain::payment_links;
use domain::payments::{self, DueInquiry, InquiryKind};
use domain::recurring_invoices;
use domain::subscriptions;
use domain::test_clocks::{self, Advance};
use foundation::clock::Clock;
use foundation::db::{self, Db};
use foundation::error::{Error, Result};
use foundation::failpoint;
use foundation::id::AccountId;
use foundation::queues;
use foundation::time::Timestamp;
use providers::Providers;

/// Time after which a worker releases an advance at the next step, so that a long one blocks neither other advances nor
/// a shutdown.
const TIME_SLICE: Duration = Duration::from_secs(5);
/// Items of a kind per run.
const BATCH: usize = 50;
/// Concurrent inquiries to the provider.
const CONCURRENT_INQUIRIES: usize = 4;
/// First and longest interval between polls of unfinished operations; each is twice the previous one.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// If work stays due after a run, another process may hold it: pause before the next run, and how many such runs to
/// allow.
const RERUN_DELAY: Duration = Duration::from_millis(100);
const RUNS_WITHOUT_PROGRESS: u32 = 20;
/// The limit if each run was a full batch.
const FULL_RUNS_WITHOUT_PROGRESS: u32 = 1_000;
/// After that limit, first and longest interval of the account's time between runs of the kind; each is twice the
/// previous one. The kind is run again at the target.
const SKIP_INTERVALS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3_600));

/// A kind of work that becomes due by an account's clock.
struct WorkKind {
    name: &'static str,
    /// When the account's next item is due.
    next_due: for<'a> fn(&'a PgPool, AccountId) -> BoxFuture<'a, Result<Option<Timestamp>>>,
    /// Runs due items, at least some of them, and returns how many there were.
    run: for<'a> fn(&'a Work<'a>, AccountId, Timestamp) -> BoxFuture<'a, Result<usize>>,
}

/// All kinds, in the order in which they run at one instant. Each must also be in
/// [`super::advanced_clocks_with_due_work`].
const KINDS: [WorkKind; 5] = [
    WorkKind {
        name: "recurring invoices",
        next_due: |db, account| recurring_invoices::next_due(db, account).boxed(),
        run: |work, account, now| {
            run_due_recurring_invoices(work.db, Scope::Advance(account, now), BATCH as i64).boxed()
        },
    },
    WorkKind {
        name: "subscriptions",
        next_due: |db, account| subscriptions::next_due(db, account).boxed(),
        run: |work, account, now| run_due_subscriptions(work.db, Scope::Advance(account, now), BATCH as i64).boxed(),
    },
    WorkKind {
        name: "collections",
        next_due: |db, account| invoices::next_due(db, account).boxed(),
        run: |work, account, now| collect_due(work, account, now).boxed(),
    },
    WorkKind {
        name: "payment links",
        next_due: |db, account| payment_links::next_due(db, account).boxed(),
        run: |work, account, now| {
            payment_links::run_due_payment_links(work.db, Scope::Advance(account, now), BATCH as i64).boxed()
        },
    },
    WorkKind {
        name: "settlement, expiry and disputes",
        next_due: |db, account| payments::next_inquiry(db, account).boxed(),
        run: |work, account, now| inquire_due(work, account, now).boxed(),
    },
];

struct Work<'a> {
    db: &'a Db,
    providers: &'a Providers,
    clock: &'a Clock,
}

/// Progress of one kind.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// What was due at its last run, and how often it has been run again for that.
    due: Option<Timestamp>,
    runs: u32,
    /// Set if those runs made no progress: it is not run before this instant. `skip_interval` is the last interval.
    skipped_until: Option<Timestamp>,
    skip_interval: Duration,
}

/// Advances a clock for one time slice; an unfinished advance is then enqueued again.
///
/// # Errors
/// Database errors; [`Error::Conflict`] if another worker has taken over, which continues the advance, or if an
/// operator has ended it.
pub async fn advance_clock(db: &Db, providers: &Providers, clock: &Clock, account: AccountId) -> Result<()> {
    let Some(advance) = test_clocks::claim(db, account).await? else { return Ok(()) };
    failpoint!("advance_clock.claimed");
    let work = Work { db, providers, clock };
    let until = Instant::now() + TIME_SLICE;
    Advancing { work: &work, advance, until, progress: vec![Progress::default(); KINDS.len()] }.run().await
}

struct Advancing<'a> {
    work: &'a Work<'a>,
    advance: Advance,
    until: Instant,
    /// Indexed like [`KINDS`].
    progress: Vec<Progress>,
}

impl Advancing<'_> {
    async fn run(mut self) -> Result<()> {
        let db = self.work.db;
        loop {
            if !self.wait_for_operations().await? {
                return self.advance.release(db).await;
            }
            let next = match self.first_due().await? {
                Due::Now(kind, due) => {
                    self.run_kind(kind, due).await?;
                    failpoint!("advance_clock.done");
                    if Instant::now() >= self.until {
                        return self.advance.release(db).await;
                    }
                    // Renews the lease; fails if another worker has it.
                    self.advance.step(db, self.advance.frozen_at).await?;
                    continue;
                }
                Due::Later(next) => next,
            };
            let Advance { frozen_at, target, .. } = self.advance;
            if frozen_at >= target {
                return self.advance.finish(db, self.work.clock.now()).await;
            }
            if Instant::now() >= self.until {
                return self.advance.release(db).await;
            }
            self.advance.step(db, next.map_or(target, |next| next.min(target))).await?;
        }
    }

    /// Returns the first kind that is due at the clock's current time, or when the next will be. A run may make an
    /// earlier kind due, so this is called after each run.
    async fn first_due(&self) -> Result<Due> {
        let mut next: Option<Timestamp> = None;
        for (kind, progress) in self.progress.iter().enumerate() {
            let due = (KINDS[kind].next_due)(self.work.db, self.advance.account).await?;
            let Some(due) = due else { continue };
            let run_at = progress.skipped_until.map_or(due, |until| due.max(until));
            if run_at <= self.advance.frozen_at {
                return Ok(Due::Now(kind, due));
            }
            next = Some(next.map_or(run_at, |next| next.min(run_at)));
        }
        Ok(Due::Later(next))
    }

    /// Runs a kind once. Work that stays due because of a bug must not stop the clock forever.
    async fn run_kind(&mut self, kind: usize, due: Timestamp) -> Result<()> {
        let (account, now) = (self.advance.account, self.advance.frozen_at);
        let WorkKind { name, run, .. } = &KINDS[kind];
        let done = match run(self.work, account, now).await {
            Ok(done) => done,
            Err(Error::Database(error)) if db::lost_connection(&error) => return Err(error.into()),
            Err(error) => {
                tracing::error!(%account, kind = name, %error, "work due by a test clock failed");
                0
            }
        };
        let progress = &mut self.progress[kind];
        if progress.due != Some(due) {
            *progress = Progress { due: Some(due), ..Progress::default() };
            return Ok(());
        }
        progress.runs += 1;
        let full = done >= BATCH;
        let limit = if full { FULL_RUNS_WITHOUT_PROGRESS } else { RUNS_WITHOUT_PROGRESS };
        if progress.runs >= limit {
            if progress.skipped_until.is_none() {
                tracing::error!(%account, kind = name, %due, "work due by a test clock stays due; the advance continues");
            }
            progress.skip_interval = (progress.skip_interval * 2).clamp(SKIP_INTERVALS.0, SKIP_INTERVALS.1);
            let last = now >= self.advance.target;
            let until = if last { Timestamp::MAX } else { now.plus(progress.skip_interval).min(self.advance.target) };
            progress.skipped_until = Some(until);
        } else if !full {
            sleep(RERUN_DELAY).await;
        }
        Ok(())
    }

    /// Waits for the operations in progress and for those that follow from them, because they own their payments until
    /// then. Operations that the merchant starts later are not waited for. Returns `false` if the time slice ends
    /// first.
    async fn wait_for_operations(&self) -> Result<bool> {
        let (mut watched, mut woken) = (None, HashSet::new());
        let mut pause = POLL_INTERVALS.0;
        loop {
            let mut pending = operations::unfinished(self.work.db, self.advance.account).await?;
            let watched = watched
                .get_or_insert_with(|| pending.iter().map(|operation| operation.subject).collect::<HashSet<_>>());
            pending.retain(|operation| watched.contains(&operation.subject));
            if pending.is_empty() {
                return Ok(true);
            }
            if Instant::now() >= self.until {
                return Ok(false);
            }
            let ready =
                pending.iter().filter(|operation| operation.state == State::Ready).map(|operation| operation.id.uuid());
            self.work.db.wake(queues::PAYMENTS, ready.filter(|id| woken.insert(*id)));
            sleep(pause).await;
            pause = POLL_INTERVALS.1.min(pause * 2);
        }
    }
}

enum Due {
    /// This kind is due since that instant.
    Now(usize, Timestamp),
    /// Nothing is due before that instant; `None` if nothing will be.
    Later(Option<Timestamp>),
}

/// Begins collection attempts. Their outcomes are awaited together with all operations.
async fn collect_due(work: &Work<'_>, account: AccountId, now: Timestamp) -> Result<usize> {
    let scope = Scope::Advance(account, now);
    let run = collect_due_invoices(work.db, scope, BATCH as i64, &Origin::default()).await?;
    Ok(run.due)
}

/// Requests the status of charges from the provider: first those that may have settled, then those whose authorization may
/// have expired.
async fn inquire_due(work: &Work<'_>, account: AccountId, now: Timestamp) -> Result<usize> {
    for awaited in [InquiryKind::Settlement, InquiryKind::Expiry] {
        let due = payments::due_inquiries(work.db, account, now, awaited, BATCH as i64).await?;
        if due.is_empty() {
            continue;
        }
        let inquire_one =
            |due: DueInquiry| async move { (due, inquire(work.db, work.providers, work.clock, due.id).await) };
        let results: Vec<_> =
            stream::iter(due.iter().copied()).map(inquire_one).buffer_unordered(CONCURRENT_INQUIRIES).collect().await;
        let mut recorded = Vec::new();
        for (due, result) in results {
            match result {
                Ok(()) => recorded.push(due),
                Err(error) => {
                    tracing::error!(payment = %due.id, %error, "the charge's status was not recorded; it will be queried again");
                }
            }
        }
        payments::postpone_inquiries(work.db, account, &recorded, now).await?;
        return Ok(due.len());
    }
    Ok(0)
}
