//! The first act of `--upgrade`: under load and without faults the schema becomes this release's beside the processes of the
//! former one, every process is replaced, and every process is put back. The faults come after it, half-way in a second try.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures_util::future::join_all;
use sqlx::PgPool;
use tokio::time::sleep;

use super::{
    caller::PATIENCE,
    check::Finding,
    journal::Entry,
    world::{Stage, World},
};
use crate::{Client, Kind, process::Programs};

/// By then the clients have customers and cards.
const WARM_UP: Duration = Duration::from_secs(10);
/// So long the former release has the new schema to itself.
const BETWEEN: Duration = Duration::from_secs(5);
/// With fewer requests it was no load.
const LEAST: u64 = 500;
/// How often the balancer asks.
const ASKED_EVERY: Duration = Duration::from_millis(100);
/// `DRAIN_MS` of every process: the balancer has asked many times by then.
pub(super) const DRAIN_MS: &str = "2000";

/// What there was to see.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// From when until when requests were sent while nothing was broken, in milliseconds of the run's clock.
    calm: (i64, i64),
    /// Charges that failed in that time, whoever asked for them.
    failed: Vec<String>,
    /// From when until when the migrations ran.
    migrating: (i64, i64),
    /// What was done, and when.
    pub(super) told: Vec<String>,
}

impl Seen {
    fn note(&mut self, began: Instant, what: &str) {
        let line = format!("{:7.1} s  {what}", began.elapsed().as_secs_f64());
        println!("{line}");
        self.told.push(line);
    }

    /// The slowest answer to whoever asked while the migrations ran, in milliseconds.
    pub(super) fn slowest(&self, entries: &[Entry]) -> i64 {
        let (from, to) = self.migrating;
        let beside = entries.iter().filter(|entry| entry.sent <= to && entry.ended >= from);
        beside.map(|entry| entry.ended - entry.sent).max().unwrap_or(0)
    }
}

/// Plays it; afterwards every process is of the former release again, and the schema is this one's.
pub(super) async fn act(stage: &mut Stage, world: &World, former: &Programs) -> Result<Seen> {
    let (began, current, mut seen) = (Instant::now(), Programs::own()?, Seen::default());
    let healths = Healths::of(stage, world)?;
    world.calm.store(true, Ordering::Relaxed);
    let acting = async {
        sleep(WARM_UP).await;
        seen.calm.0 = world.clock.now();
        seen.note(began, "the schema becomes this release's, beside the former one's processes");
        seen.migrating.0 = world.clock.now();
        stage.cluster.migrate_to(&current).await?;
        seen.migrating.1 = world.clock.now();
        seen.note(began, "the schema is this release's");
        sleep(BETWEEN).await;
        for (programs, name) in [(&current, "this release's"), (former, "the former release's again")] {
            for index in 0..stage.cluster.processes().len() {
                let what = replace(stage, world, index, programs).await?;
                seen.note(began, &format!("{what} is {name}"));
            }
        }
        seen.calm.1 = world.clock.now();
        // Whoever asked last has an answer by then, or gives up.
        sleep(PATIENCE).await;
        seen.failed = failed(&stage.db, seen.calm).await?;
        anyhow::Ok(())
    };
    tokio::select! {
        done = acting => done?,
        () = balance(world, &healths) => {}
    }
    world.calm.store(false, Ordering::Relaxed);
    Ok(seen)
}

/// Those that are still of the former release are replaced.
pub(super) async fn finish(stage: &mut Stage, world: &World) -> Result<()> {
    let (current, healths) = (Programs::own()?, Healths::of(stage, world)?);
    let replacing = async {
        for index in 0..stage.cluster.processes().len() {
            let process = &mut stage.cluster.processes()[index];
            process.resume()?;
            process.wait_until_ready().await?;
            replace(stage, world, index, &current).await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        done = replacing => done,
        () = balance(world, &healths) => Ok(()),
    }
}

/// It is asked to end, does, and comes back as another release's; answers which it was.
async fn replace(stage: &mut Stage, world: &World, index: usize, programs: &Programs) -> Result<String> {
    let process = &mut stage.cluster.processes()[index];
    let name = process.name();
    let status = process.terminate().await?;
    ensure!(status.code() == Some(0), "{name} ends well when it is asked to, and not with {status}");
    process.take_release(programs)?;
    process.restart().await?;
    let balanced = match process.kind() {
        Kind::Api => world.ready.get(process.place()),
        Kind::Gateway => world.ready_gateways.get(process.place()),
        Kind::Worker | Kind::Scheduler => None,
    };
    while balanced.is_some_and(|ready| !ready.load(Ordering::Relaxed)) {
        sleep(ASKED_EVERY).await;
    }
    Ok(name)
}

/// The listeners at which a balancer asks.
struct Healths {
    apis: Vec<Client>,
    gateways: Vec<Client>,
}

impl Healths {
    fn of(stage: &Stage, world: &World) -> Result<Self> {
        let health = |kind, index| Client::new(&stage.cluster.metrics_url(kind, index).replace("/metrics", ""));
        let all = |kind, count| (0..count).map(|index| health(kind, index)).collect::<Result<Vec<_>>>();
        Ok(Self { apis: all(Kind::Api, world.apis.len())?, gateways: all(Kind::Gateway, world.gateways.len())? })
    }
}

/// Keeps the clients away from whoever is about to go: what any balancer does that asks `/readyz`.
async fn balance(world: &World, healths: &Healths) {
    loop {
        let apis = healths.apis.iter().zip(&world.ready);
        let gateways = healths.gateways.iter().zip(&world.ready_gateways);
        join_all(apis.chain(gateways).map(async |(health, ready)| {
            let answer = health.get("/readyz").await;
            ready.store(answer.is_ok_and(|answer| answer.status == 200), Ordering::Relaxed);
        }))
        .await;
        sleep(ASKED_EVERY).await;
    }
}

/// Charges that ended as failed, asked for by clients or by billing: with providers that answer there is no reason for any.
async fn failed(db: &PgPool, (from, to): (i64, i64)) -> Result<Vec<String>> {
    let failed = sqlx::query_scalar(
        "SELECT format('%s of %s: %s', kind, payment_id, failure) FROM operations WHERE state = 'failed'
           AND kind IN ('sale', 'authorize') AND finished_at BETWEEN to_timestamp($1 / 1000.0) AND to_timestamp($2 / 1000.0)",
    );
    Ok(failed.bind(from).bind(to).fetch_all(db).await?)
}

/// While nothing was broken but everything replaced, every request was answered, and no charge failed.
pub(super) fn check(seen: &Seen, entries: &[Entry]) -> Finding {
    let mut finding = Finding::of("no request failed while the schema and every process changed");
    let (from, to) = seen.calm;
    for entry in entries.iter().filter(|entry| (from..=to).contains(&entry.sent)) {
        finding.holds(entry.status.is_some_and(|status| status < 500), || {
            format!("{} at {} ms: {:?} {}", entry.request, entry.sent - from, entry.status, entry.answer)
        });
    }
    let requests = finding.checked;
    finding.holds(requests >= LEAST, || format!("{requests} requests are no load"));
    seen.failed.iter().for_each(|charge| finding.holds(false, || charge.clone()));
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_in_the_calm_is_found_and_what_failed_outside_is_not() {
        let mut seen = Seen { calm: (100, 200), ..Seen::default() };
        let entry = |sent, ended, status| Entry { sent, ended, status, ..Entry::default() };
        let mut entries = vec![entry(110, 120, Some(201)); usize::try_from(LEAST).expect("a few")];
        assert_eq!(check(&seen, &entries[1..]).violations.len(), 1, "no load");
        entries.extend([entry(90, 110, None), entry(201, 210, Some(500))]);
        assert_eq!(check(&seen, &entries).violations, [""; 0]);
        for bad in [entry(110, 120, None), entry(110, 120, Some(503)), entry(199, 229, None)] {
            assert_eq!(check(&seen, &[&entries[..], &[bad]].concat()).violations.len(), 1);
        }
        seen.failed.push("a charge".to_owned());
        assert_eq!(check(&seen, &entries).violations, ["a charge"]);
    }
}
