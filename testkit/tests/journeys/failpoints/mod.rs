//! Failpoints: at each step of each operation a process aborts, pauses beyond its lease, or fails with an error, and
//! healthy processes take over. Every payment ends correctly (docs/reliability.md, Failpoints).
//!
//! Each row of the table is a scenario with a merchant of its own. Until the faulty process has hit the failpoint, no
//! other process can do the work.

mod billing;
mod case;
mod creating;
mod faulty;
mod outcomes;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::pin::pin;

use anyhow::{Context, Result};
use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, join_all, try_join_all};
use futures_util::stream::{self, FuturesUnordered, StreamExt, TryStreamExt};
use testkit::{Cluster, ProcessKind, TempDir};
use tokio::time::{Instant, sleep_until};

use crate::support::{eventually, failpoint_hits};
use case::{Case, World};
use faulty::{Action, Faulty, PAUSE};
use table::{By, Row, Scenario, TABLE};

/// The minimum number of operations that other workers must have claimed before the paused ones resume.
const MIN_TAKEN_OVER: i64 = 8;
/// Cases that are prepared concurrently.
const CONCURRENT_PREPARATIONS: usize = 4;

/// Requests without a response yet.
type PendingRequests<'a> = FuturesUnordered<LocalBoxFuture<'a, ()>>;

#[tokio::test]
#[ignore = "keeps seven systems busy"]
async fn every_failure_at_every_step_is_recovered() -> Result<()> {
    let of = |by: By| TABLE.iter().filter(|row| row.by == by).collect::<Vec<_>>();
    let workers = of(By::Worker);
    let all = [Action::Pause, Action::Error, Action::Abort];
    let mut lanes = vec![
        lane(By::Worker, vec![Action::Pause], workers.clone()),
        lane(By::Worker, vec![Action::Error], workers.clone()),
        lane(By::Api, all.to_vec(), of(By::Api)),
        lane(By::Scheduler, all.to_vec(), of(By::Scheduler)),
    ];
    // A process that aborts must be restarted for each case, so these cases are split over three lanes.
    lanes.extend(
        workers.chunks(workers.len().div_ceil(3)).map(|rows| lane(By::Worker, vec![Action::Abort], rows.to_vec())),
    );
    let results: Vec<(usize, Vec<String>)> = try_join_all(lanes).await?;
    let cases: usize = results.iter().map(|(cases, _)| cases).sum();
    let failures: Vec<_> = results.into_iter().flat_map(|(_, failures)| failures).collect();
    assert!(failures.is_empty(), "{} of {cases} cases failed:\n  {}", failures.len(), failures.join("\n  "));
    assert_eq!(cases, 3 * TABLE.len(), "each row runs with each action");
    Ok(())
}

/// Runs these rows with these actions in a cluster of their own. Returns the number of cases and the failures.
async fn lane(by: By, actions: Vec<Action>, rows: Vec<&'static Row>) -> Result<(usize, Vec<String>)> {
    let gateways = usize::from(rows.iter().any(|row| row.scenario == Scenario::Challenge));
    let cluster = Cluster::builder().api(1).worker(1).gateway(gateways).env("DATABASE_POOL", "6");
    let mut cluster = cluster.start().await?;
    let folder = TempDir::new()?;
    let resume = folder.path().join("resume");
    let world = World::new(&cluster)?;
    let combinations = actions.iter().flat_map(|action| rows.iter().map(|row| (*action, *row)));
    let prepared = stream::iter(combinations).map(|(action, row)| Case::prepare(&cluster, &world, action, row));
    let cases: Vec<Case> = prepared.buffered(CONCURRENT_PREPARATIONS).try_collect().await?;
    if by != By::Api {
        cluster.worker(0).terminate().await?;
    }
    let mut settling = Vec::new();
    for case in cases.iter().filter(|case| matches!(case.row.scenario, Scenario::Settlement | Scenario::Clock)) {
        settling.push(case.provider_account().await?);
    }
    world.freeze(&settling).await?;
    for case in &cases {
        case.interrupt(&world).await.with_context(|| case.label())?;
    }

    let (mut pending, mut paused) = (PendingRequests::new(), Vec::new());
    for action in actions {
        let (single, shared): (Vec<_>, Vec<_>) =
            cases.iter().filter(|case| case.action == action).partition(|case| case.needs_a_process());
        for case in single {
            paused.extend(run_alone(&mut cluster, &world, by, case, &resume).await.with_context(|| case.label())?);
        }
        if !shared.is_empty() {
            let faulty = run_shared(&mut cluster, &world, (by, action, &resume), &shared, &mut pending).await?;
            if action == Action::Pause {
                paused.push(faulty);
            }
        }
    }
    let (pauses_end, has_paused_workers) = (Instant::now() + PAUSE, by == By::Worker && !paused.is_empty());

    // Healthy processes take over, and clients repeat failed requests.
    for case in &cases {
        case.heal().await.with_context(|| case.label())?;
    }
    if by != By::Api {
        cluster.worker(0).restart().await?;
    }
    cluster.add(ProcessKind::Scheduler).await?;
    let resume_paused = async {
        if !paused.is_empty() {
            sleep_until(pauses_end).await;
        }
        if has_paused_workers {
            // Without takeovers the resumed operations would test nothing.
            eventually("operations to be taken over from paused workers", async || {
                Ok((world.taken_over().await? >= MIN_TAKEN_OVER).then_some(()))
            })
            .await?;
        }
        fs::write(&resume, "")?;
        end_paused(&mut cluster, by, &paused, &mut pending).await
    };
    let repeated = join_all(cases.iter().map(|case| failure(case, case.repeat(&world))));
    // A client of the api repeats its request only after a response or a lost connection.
    let (resumed, repeated) =
        if by == By::Api { (resume_paused.await, repeated.await) } else { tokio::join!(resume_paused, repeated) };
    resumed?;
    world.wait_until_settled().await?;
    let checked = join_all(cases.iter().map(|case| failure(case, case.check()))).await;
    let failures = repeated.into_iter().chain(checked).flatten().collect();
    Ok((cases.len(), failures))
}

/// Resumes the paused processes and lets their operations run to their end.
async fn end_paused(cluster: &mut Cluster, by: By, paused: &[Faulty], pending: &mut PendingRequests<'_>) -> Result<()> {
    for faulty in paused {
        faulty.process(cluster).resume()?;
    }
    if by == By::Api {
        while pending.next().await.is_some() {}
    }
    for faulty in paused {
        let status = faulty.process(cluster).terminate().await?;
        assert_eq!(status.code(), Some(0), "a resumed process must exit with 0");
    }
    Ok(())
}

/// The error or panic of a check, with the label of the case.
async fn failure(case: &Case, check: impl Future<Output = Result<()>>) -> Option<String> {
    match AssertUnwindSafe(check).catch_unwind().await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{}: {error:#}", case.label())),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().cloned();
            let message = message.or_else(|| panic.downcast_ref::<&str>().map(|message| (*message).to_owned()));
            Some(format!("{}: {}", case.label(), message.unwrap_or_default()))
        }
    }
}

/// Runs one case in a process of its own. Returns the process if it is paused.
async fn run_alone(cluster: &mut Cluster, world: &World, by: By, case: &Case, resume: &Path) -> Result<Option<Faulty>> {
    // Ids that earlier cases left in the queues are pushed again by the sweep.
    cluster.redis.flush_all().await?;
    let points = case.action.at(case.row.point, 1, by, resume);
    if by == By::Scheduler {
        case.drive(world, &world.url).await?;
    }
    let faulty = Faulty::start(cluster, by, &points).await?;
    let url = if by == By::Api { faulty.url.clone() } else { world.url.clone() };
    let mut request = pin!(async move {
        if by != By::Scheduler {
            // The connection may be lost.
            let _ = case.drive(world, &url).await;
        }
        std::future::pending::<()>().await
    });
    tokio::select! {
        hit = faulty.hits(case.row.point, 1) => hit?,
        () = &mut request => {}
    }
    match case.action {
        Action::Abort => faulty.aborts(cluster).await?,
        Action::Error => faulty.process(cluster).kill9()?,
        // It must not do the work of other cases while it waits.
        Action::Pause => {
            faulty.process(cluster).pause()?;
            return Ok(Some(faulty));
        }
    }
    Ok(None)
}

/// Runs cases in one shared process, which stops each in turn at its failpoint.
async fn run_shared<'a>(
    cluster: &mut Cluster,
    world: &'a World,
    (by, action, resume): (By, Action, &Path),
    cases: &[&'a Case],
    pending: &mut PendingRequests<'a>,
) -> Result<Faulty> {
    cluster.redis.flush_all().await?;
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases {
        *times.entry(case.row.point).or_default() += 1;
    }
    let points: Vec<_> = times.iter().map(|(point, times)| action.at(point, *times, by, resume)).collect();
    // Each operation stopped within a transaction holds a connection.
    cluster.set_env("DATABASE_POOL", "30");
    let faulty = Faulty::start(cluster, by, &points.join(";")).await?;
    cluster.set_env("DATABASE_POOL", "6");
    let url = if by == By::Api { faulty.url.clone() } else { world.url.clone() };
    let mut hits_so_far: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases.iter().copied() {
        let url = url.clone();
        pending.push(
            async move {
                // The response may be an error.
                let _ = case.drive(world, &url).await;
            }
            .boxed_local(),
        );
        let nth = hits_so_far.entry(case.row.point).or_default();
        *nth += 1;
        let log = faulty.log();
        let mut hit = pin!(failpoint_hits(&log, case.row.point, *nth));
        loop {
            tokio::select! {
                hit = &mut hit => break hit.with_context(|| case.label())?,
                Some(()) = pending.next() => {}
            }
        }
    }
    Ok(faulty)
}
