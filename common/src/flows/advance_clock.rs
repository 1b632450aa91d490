//! Advancing a test clock: it stands still at one due instant after the other, until it has reached its target, and at each
//! of them all that is due is done in the order of [`KINDS`].
//!
//! Whatever breaks off here is taken up again where the clock stands by then: work is claimed row by row, and what is done is
//! no longer due. So an advance may be killed at any point, and two workers at it do nothing twice.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use sqlx::PgPool;
use tokio::time::{Instant, sleep};

use super::{collect_due_invoices, inquire, run_due_recurring_invoices, run_due_subscriptions};
use crate::accounts::Scope;
use crate::clock::Clock;
use crate::db::{self, Db};
use crate::error::{Error, Result};
use crate::id::{AccountId, PaymentId};
use crate::invoices;
use crate::operations::{self, Origin, State};
use crate::payment_links;
use crate::payments::{self, Awaited};
use crate::proof::failpoint;
use crate::providers::Providers;
use crate::queues;
use crate::recurring_invoices;
use crate::subscriptions;
use crate::test_clocks::{self, Advance};
use crate::time::Timestamp;

/// After so long a worker gives an advance back at the next step, so that a long one holds up no other, and no stop.
const SLICE: Duration = Duration::from_secs(5);
/// How many of a kind are done in one run.
const BATCH: usize = 50;
/// Questions to the provider at once.
const INQUIRIES_AT_ONCE: usize = 4;
/// The pauses between two looks at operations that are under way, each twice the one before.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// Something stays due though it was run: somebody else may be at it, so it is run again after a pause, so often.
const RUN_AGAIN_AFTER: Duration = Duration::from_millis(100);
const RUNS_WITHOUT_PROGRESS: u32 = 20;
/// The same if each run was a full batch.
const FULL_RUNS_WITHOUT_PROGRESS: u32 = 1_000;
/// After that a kind is run once in so much of the account's time, and then in twice as much, up to a day; and at the target.
const LEAVE_ALONE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3_600));

/// Something that falls due by an account's clock.
struct Kind {
    name: &'static str,
    /// When the next of an account is due.
    next_due: for<'a> fn(&'a PgPool, AccountId) -> BoxFuture<'a, Result<Option<Timestamp>>>,
    /// Does what is due, some of it at least, and answers how many there were.
    run: for<'a> fn(&'a Work<'a>, AccountId, Timestamp) -> BoxFuture<'a, Result<usize>>,
}

/// All that falls due, in the order in which it is done at one instant. Each has a line in [`super::accounts_ahead_with_due`],
/// too.
const KINDS: [Kind; 5] = [
    Kind {
        name: "recurring invoices",
        next_due: |db, account| recurring_invoices::next_due(db, account).boxed(),
        run: |work, account, now| {
            run_due_recurring_invoices(work.db, Scope::Advance(account, now), BATCH as i64).boxed()
        },
    },
    Kind {
        name: "subscriptions",
        next_due: |db, account| subscriptions::next_due(db, account).boxed(),
        run: |work, account, now| run_due_subscriptions(work.db, Scope::Advance(account, now), BATCH as i64).boxed(),
    },
    Kind {
        name: "collections",
        next_due: |db, account| invoices::next_due(db, account).boxed(),
        run: |work, account, now| collect_due(work, account, now).boxed(),
    },
    Kind {
        name: "payment links",
        next_due: |db, account| payment_links::next_due(db, account).boxed(),
        run: |work, account, now| {
            payment_links::run_due_payment_links(work.db, Scope::Advance(account, now), BATCH as i64).boxed()
        },
    },
    Kind {
        name: "settlement and expiry",
        next_due: |db, account| payments::next_inquiry(db, account).boxed(),
        run: |work, account, now| inquire_due(work, account, now).boxed(),
    },
];

struct Work<'a> {
    db: &'a Db,
    providers: &'a Providers,
    clock: &'a Clock,
}

/// How a kind fares.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// What was due when it was run last, and how often it has been run for that again.
    due: Option<Timestamp>,
    runs: u32,
    /// Nothing came of that. It is not run before this, and was left alone for so long.
    left_until: Option<Timestamp>,
    left_for: Duration,
}

/// Advances a clock as far as it goes in one slice of time; then it is handed out again.
///
/// # Errors
/// The database's, or [`Error::Conflict`] if another worker has taken over; the advance goes on from where it is. A conflict too if an
/// operator has ended it: then it goes nowhere.
pub async fn advance_clock(db: &Db, providers: &Providers, clock: &Clock, account: AccountId) -> Result<()> {
    let Some(advance) = test_clocks::claim(db, account).await? else { return Ok(()) };
    failpoint("advance_clock.claimed").await?;
    let work = Work { db, providers, clock };
    let until = Instant::now() + SLICE;
    Advancing { work: &work, advance, until, progress: vec![Progress::default(); KINDS.len()] }.run().await
}

struct Advancing<'a> {
    work: &'a Work<'a>,
    advance: Advance,
    until: Instant,
    /// By the place in [`KINDS`].
    progress: Vec<Progress>,
}

impl Advancing<'_> {
    async fn run(mut self) -> Result<()> {
        let db = self.work.db;
        loop {
            if !self.operations_end().await? {
                return self.advance.release(db).await;
            }
            let next = match self.first_due().await? {
                Due::Now(kind, due) => {
                    self.do_some(kind, due).await?;
                    failpoint("advance_clock.done").await?;
                    if Instant::now() >= self.until {
                        return self.advance.release(db).await;
                    }
                    // The lease begins anew, or somebody else has it.
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

    /// The first in the order that is due where the clock stands, or when the next will be. What is done may make something due
    /// that comes earlier in the order, so it is asked after each.
    async fn first_due(&self) -> Result<Due> {
        let mut next: Option<Timestamp> = None;
        for (kind, progress) in self.progress.iter().enumerate() {
            let due = (KINDS[kind].next_due)(self.work.db, self.advance.account).await?;
            let Some(due) = due else { continue };
            let run_at = progress.left_until.map_or(due, |left| due.max(left));
            if run_at <= self.advance.frozen_at {
                return Ok(Due::Now(kind, due));
            }
            next = Some(next.map_or(run_at, |next| next.min(run_at)));
        }
        Ok(Due::Later(next))
    }

    /// Runs a kind once. What stays due by a mistake of ours must not hold the clock for ever.
    async fn do_some(&mut self, kind: usize, due: Timestamp) -> Result<()> {
        let (account, now) = (self.advance.account, self.advance.frozen_at);
        let Kind { name, run, .. } = &KINDS[kind];
        let done = match run(self.work, account, now).await {
            Ok(done) => done,
            Err(Error::Database(error)) if db::lost_connection(&error) => return Err(error.into()),
            Err(error) => {
                tracing::error!(%account, kind = name, %error, "what is due by a test clock could not be done");
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
        let enough = if full { FULL_RUNS_WITHOUT_PROGRESS } else { RUNS_WITHOUT_PROGRESS };
        if progress.runs >= enough {
            if progress.left_until.is_none() {
                tracing::error!(%account, kind = name, %due, "what is due by a test clock stays due; the clock goes on");
            }
            progress.left_for = (progress.left_for * 2).clamp(LEAVE_ALONE.0, LEAVE_ALONE.1);
            let last = now >= self.advance.target;
            let until = if last { Timestamp::MAX } else { now.plus(progress.left_for).min(self.advance.target) };
            progress.left_until = Some(until);
        } else if !full {
            sleep(RUN_AGAIN_AFTER).await;
        }
        Ok(())
    }

    /// Waits for the operations that are under way by now, and for those that follow from them: what they are about is theirs
    /// until then. Later ones of the merchant are not waited for. `false`: they have not ended, but the slice has.
    async fn operations_end(&self) -> Result<bool> {
        let (mut watched, mut woken) = (None, HashSet::new());
        let mut pause = LOOKS.0;
        loop {
            let mut left = operations::unfinished(self.work.db, self.advance.account).await?;
            let watched = watched.get_or_insert_with(|| left.iter().map(|one| one.subject).collect::<HashSet<_>>());
            left.retain(|one| watched.contains(&one.subject));
            if left.is_empty() {
                return Ok(true);
            }
            if Instant::now() >= self.until {
                return Ok(false);
            }
            let ready = left.iter().filter(|one| one.state == State::Ready).map(|one| one.id.uuid());
            self.work.db.wake(queues::MONEY, ready.filter(|id| woken.insert(*id)));
            sleep(pause).await;
            pause = LOOKS.1.min(pause * 2);
        }
    }
}

enum Due {
    /// This kind, since then.
    Now(usize, Timestamp),
    /// Nothing before then; nothing at all without it.
    Later(Option<Timestamp>),
}

/// Begins attempts. Their outcomes are waited for with all operations.
async fn collect_due(work: &Work<'_>, account: AccountId, now: Timestamp) -> Result<usize> {
    let scope = Scope::Advance(account, now);
    let collecting = collect_due_invoices(work.db, scope, BATCH as i64, &Origin::default()).await?;
    Ok(collecting.due)
}

/// Asks how charges stand: those that may have settled first, then those whose hold may have run out.
async fn inquire_due(work: &Work<'_>, account: AccountId, now: Timestamp) -> Result<usize> {
    for awaited in [Awaited::Settlement, Awaited::Expiry] {
        let due = payments::due_inquiries(work.db, account, now, awaited, BATCH as i64).await?;
        if due.is_empty() {
            continue;
        }
        let ask = |id: PaymentId| async move { (id, inquire(work.db, work.providers, work.clock, id).await) };
        let answers: Vec<_> =
            stream::iter(due.iter().copied()).map(ask).buffer_unordered(INQUIRIES_AT_ONCE).collect().await;
        let mut asked = Vec::new();
        for (id, answer) in answers {
            match answer {
                Ok(()) => asked.push(id),
                Err(error) => {
                    tracing::error!(payment = %id, %error, "how the charge stands was not noted; asked for again");
                }
            }
        }
        payments::postpone_inquiries(work.db, account, &asked, now).await?;
        return Ok(due.len());
    }
    Ok(0)
}
