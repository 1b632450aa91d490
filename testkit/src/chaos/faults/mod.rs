//! Injects the scheduled faults, ends them in time, and records what happened.

mod clocks;
mod counters;
mod gateway;
mod late_sends;
mod mock;
mod operator;
mod postgres;
mod processes;
mod timetable;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use sqlx::PgConnection;
use tokio::time::sleep;

use self::{
    clocks::WrongClocks,
    counters::Deadlocks,
    gateway::Rejections,
    late_sends::LateSends,
    mock::Mock,
    operator::Operator,
    processes::{ProcessId, Processes, process},
    timetable::{Phase, Timetable},
};
use super::{
    fault::Fault,
    fault_log::{FaultLog, Window},
    ledger,
    schedule::{Plan, Step, extra_steps},
    system::System,
};
use crate::{process::Programs, proxy::Mode};

use Fault::{
    ClockHours, ClockMonths, ClockRestart, ClockSeconds, ClockSlight, GatewayCut, GatewayDelay, GatewayDrip,
    GatewayFail, GatewayLose, GatewayRefuse, GatewayTooManyRequests, KillApi, KillGateway, KillScheduler, KillWorker,
    MockDelay, MockLose, MockOutage, MockRefuse, MoveAccount, PostgresConnections, PostgresCut, PostgresDelay,
    PostgresFull, PostgresRestart, RedisCut, RedisDelay, RedisFlush, RedisRestart, RotateKeys, StopApi, StopGateway,
    StopScheduler, StopWorker,
};

/// Extra rounds after the load for required events that have not occurred.
const EXTRA_ROUNDS: usize = 3;
/// The delay before a failed step is retried.
const RETRY_DELAY: Duration = Duration::from_millis(700);

/// Injects faults.
pub(super) struct FaultInjector<'a> {
    system: &'a mut System,
    began: Instant,
    fault_log: FaultLog,
    processes: Processes,
    clocks: WrongClocks,
    late_sends: LateSends,
    mock: Mock,
    rejections: Rejections,
    operator: Operator,
    held_connections: Vec<PgConnection>,
    deadlocks: Deadlocks,
    /// The index of the open window of a step, by the index of the step.
    open_windows: BTreeMap<usize, usize>,
}

impl<'a> FaultInjector<'a> {
    /// `release` is the release as which killed processes restart, if not their own.
    pub(super) fn new(system: &'a mut System, release: Option<Programs>) -> Self {
        Self {
            system,
            began: Instant::now(),
            fault_log: FaultLog::default(),
            processes: Processes::new(release),
            clocks: WrongClocks::default(),
            late_sends: LateSends::default(),
            mock: Mock::default(),
            rejections: Rejections::default(),
            operator: Operator::default(),
            held_connections: Vec::new(),
            deadlocks: Deadlocks::default(),
            open_windows: BTreeMap::new(),
        }
    }

    /// Runs all steps, then those for required events that have not occurred, and then undoes everything.
    pub(super) async fn run(mut self, steps: &[Step], plan: &Plan) -> Result<FaultLog> {
        self.run_steps(steps).await?;
        self.wait_until(plan.load).await?;
        let minimums = plan.minimums;
        for _ in 0..EXTRA_ROUNDS {
            // 0 if it cannot be determined.
            let lost = ledger::charges_with_lost_response(self.system).await.unwrap_or(0) >= minimums.lost_responses;
            let late = self.fault_log.late_references.len() >= minimums.late_sends;
            let failed = minimums.late_sends == 0 || self.has_failed_payments().await;
            let more = extra_steps(self.began.elapsed(), lost, late, failed);
            if more.is_empty() {
                break;
            }
            self.run_steps(&more).await?;
        }
        self.operator.finish(self.system).await?;
        self.deadlocks.poll(&self.system.db).await;
        self.fault_log.deadlocks = self.deadlocks.total();
        Ok(self.fault_log)
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
            let from = self.system.clock.now();
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
            window.to = self.system.clock.now();
        }
    }

    /// Waits, restarts processes that have exited by themselves, and performs deferred work.
    async fn wait_until(&mut self, at: Duration) -> Result<()> {
        loop {
            let at_seconds = self.began.elapsed().as_secs_f64();
            let exited = self.processes.restart_exited(self.system)?;
            self.fault_log.unexpected_exits.extend(exited.iter().map(|name| format!("{name} at {at_seconds:.1} s")));
            self.clocks.check(self.system).await?;
            self.operator.run_tasks(self.system).await;
            self.deadlocks.poll(&self.system.db).await;
            self.mock.reset_latency(self.system).await;
            let left = at.saturating_sub(self.began.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(Duration::from_millis(500))).await;
        }
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
        let target = self.target(step);
        let Self { system, mock, .. } = self;
        match step.fault {
            KillApi | KillWorker | KillScheduler | KillGateway => self.processes.kill(system, target)?,
            StopWorker => return self.late_sends.stop_during_charge(system, mock, target.1).await,
            StopApi | StopScheduler | StopGateway => process(system, target).pause()?,
            RedisFlush => system.cluster.redis.flush_all().await?,
            RedisRestart => system.cluster.redis.kill9()?,
            RedisCut => system.proxies.redis.set_mode(Mode::Cut),
            RedisDelay => system.proxies.redis.set_mode(Mode::Delay(Duration::from_millis(800))),
            PostgresRestart => postgres::server(system)?.kill_immediate()?,
            PostgresConnections => {
                return Ok(postgres::exhaust_connections(system, &mut self.held_connections).await);
            }
            PostgresFull => return postgres::fill_disk(system),
            PostgresCut => postgres::set_mode(system, Mode::Cut),
            PostgresDelay => postgres::set_mode(system, Mode::Delay(Duration::from_millis(400))),
            GatewayCut => gateway::set_mode(system, Mode::Cut),
            GatewayLose => gateway::set_mode(system, Mode::Lose),
            GatewayDelay => gateway::set_mode(system, Mode::Delay(Duration::from_secs(12))),
            GatewayFail => gateway::set_mode(system, Mode::Fail),
            GatewayDrip => gateway::set_mode(system, Mode::Drip),
            MockLose => return Ok(mock.configure(system, step.target, &["--lose-responses", "8"]).await),
            // The mock records a charge after half of its latency: the worker has timed out and inquired by then, but
            // does not yet treat the charge as not found.
            MockDelay => return Ok(mock.configure(system, step.target, &["--latency-ms", "36000"]).await),
            MockRefuse => return Ok(mock.configure(system, step.target, &["--refuse"]).await),
            ClockSlight | ClockSeconds | ClockHours | ClockMonths => self.clocks.shift(system, target, step.shift)?,
            ClockRestart => {
                self.clocks.shift(system, target, step.shift)?;
                if !self.processes.is_killed(target) {
                    process(system, target).relaunch()?;
                }
            }
            GatewayRefuse => gateway::set_mode(system, Mode::Refuse),
            GatewayTooManyRequests => self.rejections.start(system),
            MockOutage => return Ok(mock.start_outage(system).await),
            RotateKeys => return self.operator.rotate_keys(system, step.target).await,
            MoveAccount => return Ok(self.operator.move_account(system, step.target).await),
        }
        Ok(true)
    }

    async fn end(&mut self, step: &Step) -> Result<()> {
        let target = self.target(step);
        let Self { system, mock, .. } = self;
        match step.fault {
            KillApi | KillWorker | KillScheduler | KillGateway => self.processes.restart(system, target)?,
            StopWorker => self.late_sends.resume(system, target.1).await?,
            StopApi | StopScheduler | StopGateway => process(system, target).resume()?,
            RedisFlush | MockLose | RotateKeys => {}
            RedisRestart => system.cluster.redis.restart().await?,
            RedisCut | RedisDelay => system.proxies.redis.set_mode(Mode::Pass),
            PostgresRestart => postgres::restart(system).await?,
            PostgresConnections => self.held_connections.clear(),
            PostgresFull => postgres::free_disk(system).await?,
            PostgresCut | PostgresDelay => postgres::set_mode(system, Mode::Pass),
            GatewayCut | GatewayLose | GatewayDelay | GatewayFail | GatewayDrip | GatewayRefuse => {
                gateway::set_mode(system, Mode::Pass);
            }
            MockDelay | MockRefuse => mock.request_latency_reset(),
            ClockSlight | ClockSeconds | ClockHours | ClockMonths | ClockRestart => {
                self.clocks.reset(system, target, &mut self.fault_log)?;
            }
            GatewayTooManyRequests => self.rejections.stop(system, &mut self.fault_log),
            MockOutage => mock.end_outage(),
            MoveAccount => self.operator.move_back(system, step.target),
        }
        Ok(())
    }

    fn target(&self, step: &Step) -> ProcessId {
        processes::target(self.system.config.size, step)
    }
}
