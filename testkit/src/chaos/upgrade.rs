//! The first part of `--upgrade`, under load and without faults: the schema is migrated while the previous release
//! runs, then every process is upgraded and rolled back. The faults follow, during a second upgrade.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures_util::future::join_all;
use sqlx::PgPool;
use tokio::time::sleep;

use super::{
    check::Finding,
    instances::Instances,
    journal::Entry,
    load::{caller::TIMEOUT, state::LoadState},
    system::System,
};
use crate::{Client, ProcessKind, process::Programs};

/// Time for the clients to create customers and cards.
const WARM_UP: Duration = Duration::from_secs(10);
/// How long the previous release runs alone on the new schema.
const OLD_RELEASE_ON_NEW_SCHEMA: Duration = Duration::from_secs(5);
/// The minimum number of requests for the test to be conclusive.
const MIN_REQUESTS: u64 = 500;
/// How often the load balancer polls.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The observations of the first part.
#[derive(Clone, Debug, Default)]
pub(super) struct Observations {
    /// The period without faults during which requests are checked, in milliseconds of the run's clock.
    checked_period: (i64, i64),
    /// Charges that failed in that period.
    failed_charges: Vec<String>,
    /// When the migrations started and ended.
    migration_period: (i64, i64),
    /// What was done, and when.
    pub(super) timeline: Vec<String>,
}

impl Observations {
    fn log(&mut self, began: Instant, what: &str) {
        let line = format!("{:7.1} s  {what}", began.elapsed().as_secs_f64());
        println!("{line}");
        self.timeline.push(line);
    }

    /// The longest response time in milliseconds of requests that overlapped the migrations.
    pub(super) fn slowest(&self, entries: &[Entry]) -> i64 {
        let (from, to) = self.migration_period;
        let overlapping = entries.iter().filter(|entry| entry.sent <= to && entry.ended >= from);
        overlapping.map(|entry| entry.ended - entry.sent).max().unwrap_or(0)
    }
}

/// Runs the first part. Afterwards every process runs the previous release again, on the new schema.
pub(super) async fn run_without_faults(
    system: &mut System,
    load: &LoadState,
    previous: &Programs,
) -> Result<Observations> {
    let (began, current, mut observations) = (Instant::now(), Programs::own()?, Observations::default());
    let health_endpoints = HealthEndpoints::of(system)?;
    load.full_timeouts.store(true, Ordering::Relaxed);
    let upgrading = async {
        sleep(WARM_UP).await;
        observations.checked_period.0 = system.clock.now();
        observations.log(began, "migrating the schema while the previous release runs");
        observations.migration_period.0 = system.clock.now();
        system.cluster.migrate_to(&current).await?;
        observations.migration_period.1 = system.clock.now();
        observations.log(began, "the schema is migrated");
        sleep(OLD_RELEASE_ON_NEW_SCHEMA).await;
        for (programs, action) in [(&current, "upgraded"), (previous, "rolled back")] {
            for index in 0..system.cluster.processes().len() {
                let process = replace(system, load, index, programs).await?;
                observations.log(began, &format!("{action} {process}"));
            }
        }
        observations.checked_period.1 = system.clock.now();
        // By then every request has its response or has timed out.
        sleep(TIMEOUT).await;
        observations.failed_charges = failed_charges(&system.db, observations.checked_period).await?;
        anyhow::Ok(())
    };
    tokio::select! {
        done = upgrading => done?,
        () = run_load_balancer(load, &health_endpoints) => {}
    }
    load.full_timeouts.store(false, Ordering::Relaxed);
    Ok(observations)
}

/// Upgrades every process that still runs the previous release.
pub(super) async fn finish(system: &mut System, load: &LoadState) -> Result<()> {
    let (current, health_endpoints) = (Programs::own()?, HealthEndpoints::of(system)?);
    let replacing = async {
        for index in 0..system.cluster.processes().len() {
            let process = &mut system.cluster.processes()[index];
            process.resume()?;
            process.wait_until_ready().await?;
            replace(system, load, index, &current).await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        done = replacing => done,
        () = run_load_balancer(load, &health_endpoints) => Ok(()),
    }
}

/// Shuts a process down gracefully and restarts it as another release. Returns its name.
async fn replace(system: &mut System, load: &LoadState, index: usize, programs: &Programs) -> Result<String> {
    let process = &mut system.cluster.processes()[index];
    let name = process.name();
    let status = process.terminate().await?;
    ensure!(status.code() == Some(0), "{name} did not shut down cleanly: {status}");
    process.set_release(programs)?;
    process.restart().await?;
    let instances = match process.kind() {
        ProcessKind::Api => &load.apis,
        ProcessKind::Gateway => &load.gateways,
        ProcessKind::Portal | ProcessKind::Worker | ProcessKind::Scheduler => return Ok(name),
    };
    while !instances.is_ready(process.index()) {
        sleep(POLL_INTERVAL).await;
    }
    Ok(name)
}

/// The health endpoints that the load balancer polls.
struct HealthEndpoints {
    apis: Vec<Client>,
    gateways: Vec<Client>,
}

impl HealthEndpoints {
    fn of(system: &System) -> Result<Self> {
        let health = |kind, index| Client::new(&system.cluster.metrics_url(kind, index).replace("/metrics", ""));
        let all = |kind, count| (0..count).map(|index| health(kind, index)).collect::<Result<Vec<_>>>();
        let size = system.config.size;
        Ok(Self { apis: all(ProcessKind::Api, size.apis)?, gateways: all(ProcessKind::Gateway, size.gateways)? })
    }
}

/// Directs clients only to ready processes, like any load balancer that polls `/readyz`.
async fn run_load_balancer(load: &LoadState, health_endpoints: &HealthEndpoints) {
    loop {
        tokio::join!(poll(&health_endpoints.apis, &load.apis), poll(&health_endpoints.gateways, &load.gateways));
        sleep(POLL_INTERVAL).await;
    }
}

async fn poll(health_endpoints: &[Client], instances: &Instances) {
    join_all(health_endpoints.iter().enumerate().map(async |(index, health)| {
        let response = health.get("/readyz").await;
        instances.set_ready(index, response.is_ok_and(|response| response.status == 200));
    }))
    .await;
}

/// Charges of clients and of billing that failed. With working providers there must be none.
async fn failed_charges(db: &PgPool, (from, to): (i64, i64)) -> Result<Vec<String>> {
    let failed_charges = sqlx::query_scalar(
        "SELECT format('%s of %s: %s', kind, payment_id, failure) FROM operations WHERE state = 'failed'
           AND kind IN ('sale', 'authorize') AND finished_at BETWEEN to_timestamp($1 / 1000.0) AND to_timestamp($2 / 1000.0)",
    );
    Ok(failed_charges.bind(from).bind(to).fetch_all(db).await?)
}

/// While every process and the schema were replaced without faults, every request got a response and no charge failed.
pub(super) fn check(observations: &Observations, entries: &[Entry]) -> Finding {
    let invariant = "no request failed while the schema and all processes were replaced";
    let mut finding = no_request_failed(invariant, observations.checked_period, entries);
    observations.failed_charges.iter().for_each(|charge| finding.check(false, || charge.clone()));
    finding
}

/// Every request sent in this period got a response other than an error of the server.
pub(super) fn no_request_failed(invariant: &'static str, (from, to): (i64, i64), entries: &[Entry]) -> Finding {
    let mut finding = Finding::new(invariant);
    for entry in entries.iter().filter(|entry| (from..=to).contains(&entry.sent)) {
        finding.check(entry.status.is_some_and(|status| status < 500), || {
            format!("{} at {} ms: {:?} {}", entry.request, entry.sent - from, entry.status, entry.response)
        });
    }
    let requests = finding.checked;
    finding.check(requests >= MIN_REQUESTS, || format!("only {requests} requests were sent"));
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_in_the_checked_period_count() {
        let mut observations = Observations { checked_period: (100, 200), ..Observations::default() };
        let entry = |sent, ended, status| Entry { sent, ended, status, ..Entry::default() };
        let mut entries = vec![entry(110, 120, Some(201)); usize::try_from(MIN_REQUESTS).expect("a few")];
        assert_eq!(check(&observations, &entries[1..]).violations.len(), 1, "too few requests");
        entries.extend([entry(90, 110, None), entry(201, 210, Some(500))]);
        assert_eq!(check(&observations, &entries).violations, [""; 0]);
        for failure in [entry(110, 120, None), entry(110, 120, Some(503)), entry(199, 229, None)] {
            assert_eq!(check(&observations, &[&entries[..], &[failure]].concat()).violations.len(), 1);
        }
        observations.failed_charges.push("a charge".to_owned());
        assert_eq!(check(&observations, &entries).violations, ["a charge"]);
    }
}
