//! Injects the scheduled faults, ends them in time, and records what happened.

mod clocks;
mod counters;
mod providers;
mod timetable;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::OpenOptions,
    io::Write,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection};
use tokio::time::sleep;

pub(super) use self::clocks::{CLOCK_OFFSET_FILE, Clocks};
use self::{clocks::ClockWatch, counters::Deadlocks, providers::OperatorTask, timetable::Timetable};
use super::{
    config::Size,
    evidence,
    proxy::Mode,
    report::Minimums,
    schedule::{Fault, PROCESS_KINDS, Step, extra_steps},
    world::{System, World},
};
use crate::{ProcessKind, process::Programs};

use Fault::{
    ClockHours, ClockMonths, ClockRestart, ClockSeconds, ClockSlight, GatewayCut, GatewayDelay, GatewayDrip,
    GatewayFail, GatewayLose, GatewayRefuse, GatewayTooManyRequests, KillApi, KillGateway, KillScheduler, KillWorker,
    MockDelay, MockLose, MockOutage, MockRefuse, MoveAccount, PostgresConnections, PostgresCut, PostgresDelay,
    PostgresFull, PostgresRestart, RedisCut, RedisDelay, RedisFlush, RedisRestart, RotateKeys, StopApi, StopGateway,
    StopScheduler, StopWorker,
};

/// What a worker sends this soon after it is resumed, it was about to send when it was stopped.
const LATE_SEND_WINDOW: Duration = Duration::from_millis(1500);
/// Extra rounds after the load for required events that have not occurred.
const EXTRA_ROUNDS: usize = 3;
/// The delay before a failed step is retried.
const RETRY_DELAY: Duration = Duration::from_millis(700);
/// More than `max_connections` of any test Postgres.
const MAX_CONNECTIONS: usize = 2000;
/// The SQLSTATE `too_many_connections`.
const TOO_MANY_CONNECTIONS: &str = "53300";

/// The record of the injected faults.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultLog {
    pub(super) counts: BTreeMap<Fault, u64>,
    /// References that a worker sent after it was stopped for longer than its lease.
    pub(super) late_references: BTreeSet<String>,
    /// Processes that exited without having been killed.
    pub(super) unexpected_exits: Vec<String>,
    /// What was injected, and when.
    pub(super) timeline: Vec<String>,
    /// When each fault was in force, by the run's clock in milliseconds.
    pub(super) windows: Vec<Window>,
    /// The number of processes with a wrong clock that reported their readiness, and those that reported to be ready.
    pub(super) clock_checks: u64,
    pub(super) ready_with_wrong_clock: Vec<String>,
    /// The requests of each account to a provider that rejected everything.
    pub(super) rejected_requests: Vec<RejectedRequests>,
    pub(super) deadlocks: i64,
}

/// When a fault was in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) fault: Fault,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// The requests of one account while its provider rejected everything.
#[derive(Clone, Debug)]
pub(super) struct RejectedRequests {
    pub(super) account: String,
    pub(super) requests: usize,
    pub(super) milliseconds: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Begin,
    End,
    CollectLateSends,
}

/// Injects faults.
pub(super) struct FaultInjector<'a> {
    system: &'a mut System,
    world: &'a World,
    began: Instant,
    fault_log: FaultLog,
    killed: BTreeSet<(usize, usize)>,
    in_progress_at_stop: BTreeMap<usize, Vec<String>>,
    held_connections: Vec<PgConnection>,
    /// The mock's latency must be reset.
    reset_latency: bool,
    /// The mock rejects everything.
    mock_is_out: bool,
    /// Operator commands that could not be completed yet.
    operator_tasks: Vec<OperatorTask>,
    clock_watches: Vec<ClockWatch>,
    deadlocks: Deadlocks,
    /// From when on rejected requests are counted.
    count_rejected_from: Option<Instant>,
    /// The index of the open window of a step, by the index of the step.
    open_windows: BTreeMap<usize, usize>,
    /// The release as which killed processes restart, if not their own.
    release: Option<Programs>,
}

impl<'a> FaultInjector<'a> {
    pub(super) fn new(system: &'a mut System, world: &'a World, release: Option<Programs>) -> Self {
        Self {
            system,
            world,
            began: Instant::now(),
            fault_log: FaultLog::default(),
            killed: BTreeSet::new(),
            in_progress_at_stop: BTreeMap::new(),
            held_connections: Vec::new(),
            reset_latency: false,
            mock_is_out: false,
            operator_tasks: Vec::new(),
            clock_watches: Vec::new(),
            deadlocks: Deadlocks::default(),
            count_rejected_from: None,
            open_windows: BTreeMap::new(),
            release,
        }
    }

    /// Runs all steps, then those for required events that have not occurred, and then undoes everything.
    pub(super) async fn run(mut self, steps: &[Step], load: Duration, minimums: Minimums) -> Result<FaultLog> {
        self.run_steps(steps).await?;
        self.wait_until(load).await?;
        for _ in 0..EXTRA_ROUNDS {
            let lost = self.lost().await >= minimums.lost_responses;
            let late = self.fault_log.late_references.len() >= minimums.late_sends;
            let failed = minimums.late_sends == 0 || self.has_failed_payments().await;
            let more = extra_steps(self.began.elapsed(), lost, late, failed);
            if more.is_empty() {
                break;
            }
            self.run_steps(&more).await?;
        }
        self.finish_operator_tasks().await?;
        self.deadlocks.poll(&self.system.db).await;
        self.fault_log.deadlocks = self.deadlocks.total();
        Ok(self.fault_log)
    }

    /// The number of charges whose response was lost so far; 0 if it cannot be determined.
    async fn lost(&self) -> usize {
        evidence::charges_with_lost_response(self.system, self.world).await.unwrap_or(0)
    }

    /// Whether a payment has failed, whose announcement can be checked; false if it cannot be determined.
    async fn has_failed_payments(&self) -> bool {
        let query = "SELECT EXISTS (SELECT FROM payments WHERE status = 'failed')";
        sqlx::query_scalar(query).fetch_one(&self.system.db).await.unwrap_or(false)
    }

    async fn run_steps(&mut self, steps: &[Step]) -> Result<()> {
        let mut timetable = Timetable::new(steps);
        while let Some((at, index, phase)) = timetable.next() {
            self.wait_until(at).await?;
            let step = &steps[index];
            if phase == Phase::End {
                self.close(index);
            }
            let from = self.world.clock.now();
            if !self.run_phase(step, phase).await.with_context(|| format!("{phase:?} {step:?}"))? {
                // Another fault prevents this step for now.
                timetable.postpone((at, index, phase), self.began.elapsed() + RETRY_DELAY);
            } else if phase == Phase::Begin {
                self.open_windows.insert(index, self.fault_log.windows.len());
                self.fault_log.windows.push(Window { fault: step.fault, from, to: i64::MAX });
            }
        }
        Ok(())
    }

    fn close(&mut self, index: usize) {
        let window = self.open_windows.remove(&index);
        if let Some(window) = window.and_then(|window| self.fault_log.windows.get_mut(window)) {
            window.to = self.world.clock.now();
        }
    }

    /// Waits, restarts processes that have exited by themselves, and performs deferred work.
    async fn wait_until(&mut self, at: Duration) -> Result<()> {
        loop {
            self.restart_exited_processes()?;
            self.check_wrong_clocks().await?;
            self.run_operator_tasks().await;
            self.deadlocks.poll(&self.system.db).await;
            if self.reset_latency && self.set_mock_latency(self.system.config.latency).await {
                self.reset_latency = false;
            }
            let left = at.saturating_sub(self.began.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(Duration::from_millis(500))).await;
        }
    }

    fn restart_exited_processes(&mut self) -> Result<()> {
        for process in self.system.cluster.processes() {
            let process_id = (process.kind() as usize, process.index());
            if !self.killed.contains(&process_id) && process.exit_status()?.is_some() {
                let at = self.began.elapsed().as_secs_f64();
                self.fault_log.unexpected_exits.push(format!("{} at {at:.1} s", process.name()));
                process.relaunch()?;
            }
        }
        Ok(())
    }

    /// Performs a phase of a step. Returns false if it must be retried.
    async fn run_phase(&mut self, step: &Step, phase: Phase) -> Result<bool> {
        match phase {
            Phase::Begin => {
                let line =
                    format!("{:7.1} s  {} #{}", self.began.elapsed().as_secs_f64(), step.fault.name(), step.target);
                if !self.begin(step).await? {
                    return Ok(false);
                }
                println!("{line}");
                self.fault_log.timeline.push(line);
                *self.fault_log.counts.entry(step.fault).or_default() += 1;
            }
            Phase::End => self.end(step).await?,
            Phase::CollectLateSends => {
                let proxy = &self.system.proxies.postgres[step.target % self.system.config.size.workers];
                let sent = proxy.sent();
                println!("           the stopped worker sent {} requests late", sent.len());
                self.fault_log.late_references.extend(sent);
                proxy.watch(Vec::new());
            }
        }
        Ok(true)
    }

    /// Starts a fault. Returns false if it must be retried.
    async fn begin(&mut self, step: &Step) -> Result<bool> {
        match step.fault {
            KillApi | KillWorker | KillScheduler | KillGateway => return self.kill(step),
            StopWorker => return self.stop_during_charge(step).await,
            StopApi | StopScheduler | StopGateway => return self.stop(step),
            RedisFlush => self.system.cluster.redis.flush_all().await?,
            RedisRestart => self.system.cluster.redis.kill9()?,
            RedisCut => self.system.proxies.redis.set_mode(Mode::Cut),
            RedisDelay => self.system.proxies.redis.set_mode(Mode::Delay(Duration::from_millis(800))),
            PostgresRestart => self.private_postgres()?.kill_immediate()?,
            PostgresConnections => return self.exhaust_connections().await,
            // Postgres cannot start on a full disk, so it must be running.
            PostgresFull => return Ok(self.postgres_runs()? && self.fill_disk()?),
            PostgresCut => self.set_postgres_mode(Mode::Cut),
            PostgresDelay => self.set_postgres_mode(Mode::Delay(Duration::from_millis(400))),
            GatewayCut => self.set_gateway_mode(Mode::Cut),
            GatewayLose => self.set_gateway_mode(Mode::Lose),
            GatewayDelay => self.set_gateway_mode(Mode::Delay(Duration::from_secs(12))),
            GatewayFail => self.set_gateway_mode(Mode::Fail),
            GatewayDrip => self.set_gateway_mode(Mode::Drip),
            MockLose => return Ok(self.configure_mock(step.target, &["--lose-answer", "8"]).await),
            // The mock records a charge after half of its latency: the worker has timed out and inquired by then, but
            // does not yet treat the charge as not found.
            MockDelay => return Ok(self.configure_mock(step.target, &["--latency-ms", "36000"]).await),
            MockRefuse => return Ok(self.configure_mock(step.target, &["--refuse"]).await),
            ClockSlight | ClockSeconds | ClockHours | ClockMonths => self.shift_clock(step, false)?,
            ClockRestart => self.shift_clock(step, true)?,
            GatewayRefuse => self.set_gateway_mode(Mode::Refuse),
            GatewayTooManyRequests => self.start_rejecting(),
            MockOutage => return Ok(self.start_mock_outage().await),
            RotateKeys => return self.rotate_keys(step).await,
            MoveAccount => return Ok(self.move_account(step).await),
        }
        Ok(true)
    }

    async fn end(&mut self, step: &Step) -> Result<()> {
        match step.fault {
            KillApi | KillWorker | KillScheduler | KillGateway => self.restart(step)?,
            StopApi | StopWorker | StopScheduler | StopGateway => self.resume(step).await?,
            RedisFlush | MockLose => {}
            RedisRestart => self.system.cluster.redis.restart().await?,
            RedisCut | RedisDelay => self.system.proxies.redis.set_mode(Mode::Pass),
            // It restarts when the disk has space again.
            PostgresRestart if self.disk_is_full() => {}
            PostgresRestart => self.restart_postgres().await?,
            PostgresConnections => self.held_connections.clear(),
            PostgresFull => self.free_disk().await?,
            PostgresCut | PostgresDelay => self.set_postgres_mode(Mode::Pass),
            GatewayCut | GatewayLose | GatewayDelay | GatewayFail | GatewayDrip | GatewayRefuse => {
                self.set_gateway_mode(Mode::Pass);
            }
            MockDelay | MockRefuse => self.reset_latency = true,
            ClockSlight | ClockSeconds | ClockHours | ClockMonths | ClockRestart => self.reset_clock(step)?,
            GatewayTooManyRequests => self.stop_rejecting(),
            MockOutage => (self.mock_is_out, self.reset_latency) = (false, true),
            RotateKeys => {}
            MoveAccount => self.move_back(step),
        }
        Ok(())
    }

    fn target_process(&self, step: &Step) -> (ProcessKind, usize) {
        let Size { apis, workers, schedulers, gateways } = self.system.config.size;
        let is_one_of = |faults: [Fault; 2]| faults.contains(&step.fault);
        if step.fault.sets_clock() {
            let index = step.target / PROCESS_KINDS;
            return match step.target % PROCESS_KINDS {
                0 => (ProcessKind::Api, index % apis),
                super::schedule::WORKER_KIND => (ProcessKind::Worker, index % workers),
                2 => (ProcessKind::Scheduler, index % schedulers),
                _ => (ProcessKind::Gateway, index % gateways),
            };
        }
        if is_one_of([KillApi, StopApi]) {
            (ProcessKind::Api, step.target % apis)
        } else if is_one_of([KillScheduler, StopScheduler]) {
            (ProcessKind::Scheduler, step.target % schedulers)
        } else if is_one_of([KillGateway, StopGateway]) {
            (ProcessKind::Gateway, step.target % gateways)
        } else {
            (ProcessKind::Worker, step.target % workers)
        }
    }

    fn process(&mut self, (kind, index): (ProcessKind, usize)) -> &mut crate::Process {
        match kind {
            ProcessKind::Api => self.system.cluster.api(index),
            ProcessKind::Worker => self.system.cluster.worker(index),
            ProcessKind::Scheduler => self.system.cluster.scheduler(index),
            ProcessKind::Gateway => self.system.cluster.gateway(index),
        }
    }

    fn kill(&mut self, step: &Step) -> Result<bool> {
        let target = self.target_process(step);
        self.killed.insert((target.0 as usize, target.1));
        self.process(target).kill9()?;
        Ok(true)
    }

    fn restart(&mut self, step: &Step) -> Result<()> {
        let target = self.target_process(step);
        self.killed.remove(&(target.0 as usize, target.1));
        if let Some(release) = self.release.clone() {
            self.process(target).set_release(&release)?;
        }
        self.process(target).relaunch()
    }

    fn stop(&mut self, step: &Step) -> Result<bool> {
        let target = self.target_process(step);
        self.process(target).pause()?;
        Ok(true)
    }

    /// Stops a worker between the gate and the mock's ledger, where a high latency of the mock keeps it.
    async fn stop_during_charge(&mut self, step: &Step) -> Result<bool> {
        self.reset_latency = true;
        if !self.set_mock_latency("6000").await {
            return Ok(false);
        }
        sleep(Duration::from_millis(1800)).await;
        let stopped = self.stop(step)?;
        let in_progress = self.charges_in_progress().await.unwrap_or_default();
        let target = self.target_process(step);
        self.in_progress_at_stop.insert(target.1, in_progress);
        self.reset_latency = !self.set_mock_latency(self.system.config.latency).await;
        Ok(stopped)
    }

    async fn set_mock_latency(&self, milliseconds: &str) -> bool {
        for target in 0..self.mock_accounts().len() {
            if !self.configure_mock(target, &["--latency-ms", milliseconds]).await {
                return false;
            }
        }
        true
    }

    /// Charges in progress at the mock that are not in its ledger yet. Some belong to the worker just stopped.
    async fn charges_in_progress(&self) -> Result<Vec<String>> {
        let in_progress = sqlx::query_scalar(
            "SELECT o.reference FROM operations o JOIN provider_accounts p ON p.id = o.provider_account_id
             WHERE o.state = 'sending' AND p.provider = 'mock' AND o.kind IN ('sale', 'authorize')
               AND NOT EXISTS (SELECT FROM mock.transactions t WHERE t.account = p.id AND t.reference = o.reference)",
        );
        Ok(in_progress.fetch_all(&self.system.db).await?)
    }

    /// Those of the references that other workers have finished or given up: no worker has a reason to send them now.
    async fn finished_elsewhere(&self, references: Vec<String>) -> Result<Vec<String>> {
        let finished = sqlx::query_scalar(
            "SELECT reference FROM operations
             WHERE reference = ANY ($1) AND (finished_at IS NOT NULL OR (state = 'unknown' AND next_push_at IS NULL))",
        );
        Ok(finished.bind(references).fetch_all(&self.system.db).await?)
    }

    /// Records what the worker sends right after it is resumed: it was about to send it when it was stopped.
    async fn resume(&mut self, step: &Step) -> Result<()> {
        let target = self.target_process(step);
        if target.0 == ProcessKind::Worker {
            let in_progress = self.in_progress_at_stop.remove(&target.1).unwrap_or_default();
            // If Postgres is unavailable, this worker's late sends are not counted.
            let watched = self.finished_elsewhere(in_progress).await.unwrap_or_default();
            self.system.proxies.postgres[target.1].watch(watched);
        }
        self.process(target).resume()
    }

    fn set_postgres_mode(&self, mode: Mode) {
        self.system.proxies.postgres.iter().for_each(|proxy| proxy.set_mode(mode));
    }

    fn set_gateway_mode(&self, mode: Mode) {
        self.system.proxies.gateway.iter().for_each(|proxy| proxy.set_mode(mode));
    }

    /// Takes all connections and makes the processes reconnect.
    async fn exhaust_connections(&mut self) -> Result<bool> {
        let url = self.system.cluster.database_url().to_owned();
        self.set_postgres_mode(Mode::Cut);
        let mut refused = false;
        while self.held_connections.len() < MAX_CONNECTIONS {
            match PgConnection::connect(&url).await {
                Ok(connection) => self.held_connections.push(connection),
                Err(error) => {
                    let code = error.as_database_error().and_then(|error| error.code());
                    refused = code.as_deref() == Some(TOO_MANY_CONNECTIONS);
                    break;
                }
            }
        }
        self.set_postgres_mode(Mode::Pass);
        if !refused {
            // Postgres was unavailable for another reason, which is not this fault.
            self.held_connections.clear();
        }
        Ok(refused)
    }

    /// Fills the disk with a file.
    fn fill_disk(&mut self) -> Result<bool> {
        let Some(disk) = &self.system.disk else { return Ok(false) };
        let mut file = OpenOptions::new().create(true).append(true).open(disk.0.join("balloon"))?;
        let block = vec![0u8; 1 << 20];
        while file.write_all(&block).is_ok() {}
        while file.write_all(&block[..4096]).is_ok() {}
        Ok(true)
    }

    async fn free_disk(&mut self) -> Result<()> {
        if let Some(disk) = &self.system.disk {
            std::fs::remove_file(disk.0.join("balloon"))?;
        }
        if self.postgres_runs()? { Ok(()) } else { self.restart_postgres().await }
    }

    fn disk_is_full(&self) -> bool {
        self.system.disk.as_ref().is_some_and(|disk| disk.0.join("balloon").exists())
    }

    fn private_postgres(&mut self) -> Result<&mut crate::Postgres> {
        self.system.cluster.postgres.as_mut().context("the system has no Postgres of its own")
    }

    fn postgres_runs(&mut self) -> Result<bool> {
        self.private_postgres()?.is_running()
    }

    async fn restart_postgres(&mut self) -> Result<()> {
        self.private_postgres()?.restart().await
    }
}
