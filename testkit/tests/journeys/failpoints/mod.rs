//! Failpoints: at each step of each operation a process aborts, pauses beyond its lease, or fails with an error, and then
//! others go on. Whatever it was, money is right in the end (docs/reliability.md, Failpoints).
//!
//! Each row of the table is a story with a merchant of its own. Until its point was come by, nobody but the faulty process is
//! there to do it.

mod billing;
mod case;
mod creating;
mod faulty;
mod payments;
mod table;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use anyhow::{Context, Result, ensure};
use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, join_all, try_join_all};
use futures_util::stream::{self, FuturesUnordered, StreamExt, TryStreamExt};
use testkit::{Cluster, Kind};
use tokio::time::{Instant, sleep_until};

use case::{Case, World};
use faulty::{Action, Faulty, PAUSE, hits};
use table::{By, Row, Story, TABLE};

/// So many operations at least have somebody else's claim when those who paused go on.
const LATE: i64 = 8;
/// Merchants that are made at once.
const MADE_AT_ONCE: usize = 4;

/// Requests that nobody has answered yet.
type UnderWay<'a> = FuturesUnordered<LocalBoxFuture<'a, ()>>;

#[tokio::test]
async fn whatever_happens_at_any_step_money_is_right() -> Result<()> {
    let of = |by: By| TABLE.iter().filter(|row| row.by == by).collect::<Vec<_>>();
    let workers = of(By::Worker);
    let all = [Action::Pause, Action::Error, Action::Abort];
    let mut lanes = vec![
        lane(By::Worker, vec![Action::Pause], workers.clone()),
        lane(By::Worker, vec![Action::Error], workers.clone()),
        lane(By::Api, all.to_vec(), of(By::Api)),
        lane(By::Scheduler, all.to_vec(), of(By::Scheduler)),
    ];
    // Who aborts has to be started again for each.
    lanes.extend(
        workers.chunks(workers.len().div_ceil(3)).map(|rows| lane(By::Worker, vec![Action::Abort], rows.to_vec())),
    );
    let ended: Vec<(usize, Vec<String>)> = try_join_all(lanes).await?;
    let cases: usize = ended.iter().map(|(cases, _)| cases).sum();
    let wrong: Vec<_> = ended.into_iter().flat_map(|(_, wrong)| wrong).collect();
    assert!(wrong.is_empty(), "{} of {cases} went wrong:\n  {}", wrong.len(), wrong.join("\n  "));
    assert_eq!(cases, 3 * TABLE.len(), "each point with each action");
    Ok(())
}

/// Tries these rows with these actions in a cluster of its own, and answers how many cases there were, and which went wrong.
async fn lane(by: By, actions: Vec<Action>, rows: Vec<&'static Row>) -> Result<(usize, Vec<String>)> {
    let gateways = usize::from(rows.iter().any(|row| row.story == Story::Challenge));
    let cluster = Cluster::builder().api(1).worker(1).gateway(gateways).env("DATABASE_POOL", "6");
    let mut cluster = cluster.start().await?;
    let world = World::new(&cluster)?;
    let wanted = actions.iter().flat_map(|action| rows.iter().map(|row| (*action, *row)));
    let made = stream::iter(wanted).map(|(action, row)| Case::prepare(&cluster, &world, action, row));
    let cases: Vec<Case> = made.buffered(MADE_AT_ONCE).try_collect().await?;
    if by != By::Api {
        cluster.worker(0).terminate().await?;
    }
    let mut settling = Vec::new();
    for case in cases.iter().filter(|case| matches!(case.row.story, Story::Settlement | Story::Clock)) {
        settling.push(case.provider_account().await?);
    }
    world.stand_still(&settling).await?;
    for case in &cases {
        case.leave(&world).await.with_context(|| case.label())?;
    }

    let (mut under_way, mut paused) = (UnderWay::new(), Vec::new());
    for action in actions {
        let (single, shared): (Vec<_>, Vec<_>) =
            cases.iter().filter(|case| case.action == action).partition(|case| case.needs_a_process());
        for case in single {
            paused.extend(alone(&mut cluster, &world, by, case).await.with_context(|| case.label())?);
        }
        if !shared.is_empty() {
            let faulty = together(&mut cluster, &world, (by, action), &shared, &mut under_way).await?;
            if action == Action::Pause {
                paused.push(faulty);
            }
        }
    }
    let (over, late_workers) = (Instant::now() + PAUSE, by == By::Worker && !paused.is_empty());

    // Somebody sound takes over, and clients whose requests came to nothing ask once more.
    for case in &cases {
        case.heal().await.with_context(|| case.label())?;
    }
    if by != By::Api {
        cluster.worker(0).restart().await?;
    }
    cluster.add(Kind::Scheduler).await?;
    let late = async {
        if by == By::Api {
            while under_way.next().await.is_some() {}
        }
        if paused.is_empty() {
            return Ok(());
        }
        for faulty in &paused {
            faulty.process(&mut cluster).resume()?;
        }
        // Those who were late go on, and say what they have to say.
        sleep_until(over).await;
        for faulty in &paused {
            assert_eq!(faulty.process(&mut cluster).terminate().await?.code(), Some(0), "whoever was late ends well");
        }
        anyhow::Ok(())
    };
    let repeated = join_all(cases.iter().map(|case| judged(case, case.repeat(&world))));
    // A client of the api repeats once it was answered, or cut off.
    let (late, repeated) = if by == By::Api { (late.await, repeated.await) } else { tokio::join!(late, repeated) };
    late?;
    world.settles().await?;
    if late_workers {
        // Lateness is what a pause is for: others must have taken over meanwhile.
        let taken_over = world.taken_over().await?;
        ensure!(taken_over >= LATE, "only {taken_over} operations were taken over from those who paused");
    }
    let checked = join_all(cases.iter().map(|case| judged(case, case.check()))).await;
    let wrong = repeated.into_iter().chain(checked).flatten().collect();
    Ok((cases.len(), wrong))
}

/// What was wrong with a case, if anything was.
async fn judged(case: &Case, looks: impl Future<Output = Result<()>>) -> Option<String> {
    match AssertUnwindSafe(looks).catch_unwind().await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{}: {error:#}", case.label())),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
            Some(format!("{}: {}", case.label(), said.unwrap_or_default()))
        }
    }
}

/// A process for this case alone. It is answered if it is only late.
async fn alone(cluster: &mut Cluster, world: &World, by: By, case: &Case) -> Result<Option<Faulty>> {
    // What others have left in the queues is the sweep's.
    cluster.redis.flush_all().await?;
    let points = case.action.at(case.row.point, 1);
    if by == By::Scheduler {
        case.drive(world, &world.url).await?;
    }
    let faulty = Faulty::start(cluster, by, &points).await?;
    let url = if by == By::Api { faulty.url.clone() } else { world.url.clone() };
    let mut request = pin!(async move {
        if by != By::Scheduler {
            // The connection may be cut.
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
        // It must not do what is meant for others meanwhile.
        Action::Pause => {
            faulty.process(cluster).pause()?;
            return Ok(Some(faulty));
        }
    }
    Ok(None)
}

/// One process for all of them: it stops each at its point, one after the other.
async fn together<'a>(
    cluster: &mut Cluster,
    world: &'a World,
    (by, action): (By, Action),
    cases: &[&'a Case],
    under_way: &mut UnderWay<'a>,
) -> Result<Faulty> {
    cluster.redis.flush_all().await?;
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases {
        *times.entry(case.row.point).or_default() += 1;
    }
    let points: Vec<_> = times.iter().map(|(point, times)| action.at(point, *times)).collect();
    // Who is stopped within a transaction holds a connection.
    cluster.set_env("DATABASE_POOL", "30");
    let faulty = Faulty::start(cluster, by, &points.join(";")).await?;
    cluster.set_env("DATABASE_POOL", "6");
    let url = if by == By::Api { faulty.url.clone() } else { world.url.clone() };
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases.iter().copied() {
        let url = url.clone();
        under_way.push(
            async move {
                // The answer may be an error.
                let _ = case.drive(world, &url).await;
            }
            .boxed_local(),
        );
        let nth = seen.entry(case.row.point).or_default();
        *nth += 1;
        let log = faulty.log();
        let mut hit = pin!(hits(&log, case.row.point, *nth));
        loop {
            tokio::select! {
                hit = &mut hit => break hit.with_context(|| case.label())?,
                Some(()) = under_way.next() => {}
            }
        }
    }
    Ok(faulty)
}
