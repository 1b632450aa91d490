//! Does what the schedule says, undoes it when its time is up, and counts what really happened.

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
use self::{clocks::Watch, counters::Deadlocks, providers::Order, timetable::Timetable};
use super::{
    evidence,
    proxy::Mode,
    report::Least,
    schedule::{Fault, KINDS_OF_PROCESSES, Step, again},
    setting::Size,
    world::{Stage, World},
};
use crate::{Kind, process::Programs};

/// So long after it goes on after a stop, what a worker sends is what it was about to send when it was stopped.
const WAKING: Duration = Duration::from_millis(1500);
/// What a run must have seen is tried so often more, by itself, after the load's time.
const SEEN_WITHIN: usize = 3;
/// How soon something that could not be done is tried again.
const AGAIN: Duration = Duration::from_millis(700);
/// More than any Postgres of a test has.
const CONNECTIONS: usize = 2000;
/// What Postgres says when it has no connection left (SQLSTATE, `too_many_connections`).
const NO_CONNECTION_LEFT: &str = "53300";

/// What came of the schedule.
#[derive(Clone, Debug, Default)]
pub(super) struct Fired {
    pub(super) counts: BTreeMap<Fault, u64>,
    /// References that a worker sent after it had been stopped beyond its lease.
    pub(super) late: BTreeSet<String>,
    /// Processes that ended although nobody had killed them.
    pub(super) died: Vec<String>,
    pub(super) told: Vec<String>,
    /// When which fault was in force, in milliseconds of the run's clock.
    pub(super) windows: Vec<Window>,
    /// Processes with a wrong clock that were asked whether they are ready, and those that said yes.
    pub(super) asked_for_the_time: u64,
    pub(super) ready_with_a_wrong_clock: Vec<String>,
    /// How often accounts were sent to a provider that turned everything away.
    pub(super) sent_in_vain: Vec<SentInVain>,
    pub(super) deadlocks: i64,
}

/// When a fault was in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) fault: Fault,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// Requests of one account, while its provider turned everything away.
#[derive(Clone, Debug)]
pub(super) struct SentInVain {
    pub(super) account: String,
    pub(super) requests: usize,
    pub(super) milliseconds: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Begin,
    End,
    Heard,
}

/// Whoever makes things happen.
pub(super) struct Hand<'a> {
    stage: &'a mut Stage,
    world: &'a World,
    began: Instant,
    fired: Fired,
    down: BTreeSet<(usize, usize)>,
    waiting: BTreeMap<usize, Vec<String>>,
    crowd: Vec<PgConnection>,
    /// The mock is to be as quick as it was.
    slow: bool,
    /// The mock turns everything away.
    mock_is_out: bool,
    /// What an operator has begun and could not finish yet.
    orders: Vec<Order>,
    watches: Vec<Watch>,
    deadlocks: Deadlocks,
    /// From when on requests in vain are counted.
    turning_away: Option<Instant>,
    /// Where the window of a step that is in force stands, by the step's place.
    open: BTreeMap<usize, usize>,
    /// What a killed process comes back as, if not as what it was.
    release: Option<Programs>,
}

impl<'a> Hand<'a> {
    pub(super) fn new(stage: &'a mut Stage, world: &'a World, release: Option<Programs>) -> Self {
        Self {
            stage,
            world,
            began: Instant::now(),
            fired: Fired::default(),
            down: BTreeSet::new(),
            waiting: BTreeMap::new(),
            crowd: Vec::new(),
            slow: false,
            mock_is_out: false,
            orders: Vec::new(),
            watches: Vec::new(),
            deadlocks: Deadlocks::default(),
            turning_away: None,
            open: BTreeMap::new(),
            release,
        }
    }

    /// All steps, then what the run must have seen and has not by chance, and then everything as it was.
    pub(super) async fn run(mut self, steps: &[Step], load: Duration, least: Least) -> Result<Fired> {
        self.play(steps).await?;
        self.until(load).await?;
        for _ in 0..SEEN_WITHIN {
            let (lost, late) = (self.lost().await >= least.lost, self.fired.late.len() >= least.late);
            let failed = least.late == 0 || self.has_failed_payments().await;
            let more = again(self.began.elapsed(), lost, late, failed);
            if more.is_empty() {
                break;
            }
            self.play(&more).await?;
        }
        self.finish_orders().await?;
        self.deadlocks.look(&self.stage.db).await;
        self.fired.deadlocks = self.deadlocks.counted();
        Ok(self.fired)
    }

    /// Charges whose answers were lost until now; none if nobody can say.
    async fn lost(&self) -> usize {
        evidence::charged_and_lost(self.stage, self.world).await.unwrap_or(0)
    }

    /// Whether a payment has failed, so that it can be seen whether that was announced; not if nobody can say.
    async fn has_failed_payments(&self) -> bool {
        let query = "SELECT EXISTS (SELECT FROM payments WHERE status = 'failed')";
        sqlx::query_scalar(query).fetch_one(&self.stage.db).await.unwrap_or(false)
    }

    async fn play(&mut self, steps: &[Step]) -> Result<()> {
        let mut timetable = Timetable::new(steps);
        while let Some((at, index, act)) = timetable.next() {
            self.until(at).await?;
            let step = &steps[index];
            if act == Act::End {
                self.close(index);
            }
            let from = self.world.clock.now();
            if !self.act(step, act).await.with_context(|| format!("{act:?} {step:?}"))? {
                // It cannot be done until another step has ended.
                timetable.postpone((at, index, act), self.began.elapsed() + AGAIN);
            } else if act == Act::Begin {
                self.open.insert(index, self.fired.windows.len());
                self.fired.windows.push(Window { fault: step.fault, from, to: i64::MAX });
            }
        }
        Ok(())
    }

    fn close(&mut self, index: usize) {
        if let Some(window) = self.open.remove(&index).and_then(|place| self.fired.windows.get_mut(place)) {
            window.to = self.world.clock.now();
        }
    }

    /// Waits, and sees meanwhile that nobody ends by himself.
    async fn until(&mut self, at: Duration) -> Result<()> {
        loop {
            self.look_after()?;
            self.ask_for_the_time().await?;
            self.carry_out().await;
            self.deadlocks.look(&self.stage.db).await;
            if self.slow && self.latency(self.stage.setting.latency).await {
                self.slow = false;
            }
            let left = at.saturating_sub(self.began.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(Duration::from_millis(500))).await;
        }
    }

    fn look_after(&mut self) -> Result<()> {
        for process in self.stage.cluster.processes() {
            let here = (process.kind() as usize, process.place());
            if !self.down.contains(&here) && process.ended()?.is_some() {
                let at = self.began.elapsed().as_secs_f64();
                self.fired.died.push(format!("{} at {at:.1} s", process.name()));
                process.relaunch()?;
            }
        }
        Ok(())
    }

    /// Whether it could be done.
    async fn act(&mut self, step: &Step, act: Act) -> Result<bool> {
        match act {
            Act::Begin => {
                let line =
                    format!("{:7.1} s  {} #{}", self.began.elapsed().as_secs_f64(), step.fault.name(), step.target);
                if !self.begin(step).await? {
                    return Ok(false);
                }
                println!("{line}");
                self.fired.told.push(line);
                *self.fired.counts.entry(step.fault).or_default() += 1;
            }
            Act::End => self.end(step).await?,
            Act::Heard => {
                let wire = &self.stage.wires.postgres[step.target % self.stage.setting.size.workers];
                let seen = wire.seen();
                println!("           {} sent late by the worker that was stopped", seen.len());
                self.fired.late.extend(seen);
                wire.watch(Vec::new());
            }
        }
        Ok(true)
    }

    /// Whether it happened; if not, it is tried again.
    async fn begin(&mut self, step: &Step) -> Result<bool> {
        use Fault::{
            ClockHours, ClockMonths, ClockRestart, ClockSeconds, ClockSlight, GatewayCut, GatewayDelay, GatewayDrip,
            GatewayFail, GatewayLose, GatewayRefuse, GatewayTurnAway, KillApi, KillGateway, KillScheduler, KillWorker,
            MockDelay, MockLose, MockOutage, MockRefuse, MoveAccount, PostgresConnections, PostgresCut, PostgresDelay,
            PostgresFull, PostgresRestart, RedisCut, RedisDelay, RedisFlush, RedisRestart, RotateKeys, StopApi,
            StopGateway, StopScheduler, StopWorker,
        };
        match step.fault {
            KillApi | KillWorker | KillScheduler | KillGateway => return self.kill(step),
            StopWorker => return self.stop_in_the_middle(step).await,
            StopApi | StopScheduler | StopGateway => return self.stop(step),
            RedisFlush => self.stage.cluster.redis.flush_all().await?,
            RedisRestart => self.stage.cluster.redis.kill9()?,
            RedisCut => self.stage.wires.redis.set(Mode::Cut),
            RedisDelay => self.stage.wires.redis.set(Mode::Delay(Duration::from_millis(800))),
            PostgresRestart => self.stage.cluster.postgres.as_mut().context("its own")?.kill_immediate()?,
            PostgresConnections => return self.crowd().await,
            // What is down cannot start on a full disk.
            PostgresFull => return Ok(self.postgres_runs()? && self.fill()?),
            PostgresCut => self.postgres(Mode::Cut),
            PostgresDelay => self.postgres(Mode::Delay(Duration::from_millis(400))),
            GatewayCut => self.gateway(Mode::Cut),
            GatewayLose => self.gateway(Mode::Lose),
            GatewayDelay => self.gateway(Mode::Delay(Duration::from_secs(12))),
            GatewayFail => self.gateway(Mode::Fail),
            GatewayDrip => self.gateway(Mode::Drip),
            MockLose => return Ok(self.mock(step.target, &["--lose-answer", "8"]).await),
            // It writes its books after half of it: after the worker has given up and asked, and before it believes that it
            // is not there.
            MockDelay => return Ok(self.mock(step.target, &["--latency-ms", "36000"]).await),
            MockRefuse => return Ok(self.mock(step.target, &["--refuse"]).await),
            ClockSlight | ClockSeconds | ClockHours | ClockMonths => self.shift_clock(step, false)?,
            ClockRestart => self.shift_clock(step, true)?,
            GatewayRefuse => self.gateway(Mode::Refuse),
            GatewayTurnAway => self.begin_to_turn_away(),
            MockOutage => return Ok(self.mock_goes_out().await),
            RotateKeys => return self.rotate_keys(step).await,
            MoveAccount => return Ok(self.move_account(step).await),
        }
        Ok(true)
    }

    async fn end(&mut self, step: &Step) -> Result<()> {
        use Fault::{
            ClockHours, ClockMonths, ClockRestart, ClockSeconds, ClockSlight, GatewayCut, GatewayDelay, GatewayDrip,
            GatewayFail, GatewayLose, GatewayRefuse, GatewayTurnAway, KillApi, KillGateway, KillScheduler, KillWorker,
            MockDelay, MockLose, MockOutage, MockRefuse, MoveAccount, PostgresConnections, PostgresCut, PostgresDelay,
            PostgresFull, PostgresRestart, RedisCut, RedisDelay, RedisFlush, RedisRestart, RotateKeys, StopApi,
            StopGateway, StopScheduler, StopWorker,
        };
        match step.fault {
            KillApi | KillWorker | KillScheduler | KillGateway => self.restart(step)?,
            StopApi | StopWorker | StopScheduler | StopGateway => self.resume(step).await?,
            RedisFlush | MockLose => {}
            RedisRestart => self.stage.cluster.redis.restart().await?,
            RedisCut | RedisDelay => self.stage.wires.redis.set(Mode::Pass),
            // It starts when there is room again.
            PostgresRestart if self.is_full() => {}
            PostgresRestart => self.revive().await?,
            PostgresConnections => self.crowd.clear(),
            PostgresFull => self.empty().await?,
            PostgresCut | PostgresDelay => self.postgres(Mode::Pass),
            GatewayCut | GatewayLose | GatewayDelay | GatewayFail | GatewayDrip | GatewayRefuse => {
                self.gateway(Mode::Pass);
            }
            MockDelay | MockRefuse => self.slow = true,
            ClockSlight | ClockSeconds | ClockHours | ClockMonths | ClockRestart => self.set_clock_right(step)?,
            GatewayTurnAway => self.end_turning_away(),
            MockOutage => (self.mock_is_out, self.slow) = (false, true),
            RotateKeys => {}
            MoveAccount => self.move_back(step),
        }
        Ok(())
    }

    fn place(&self, step: &Step) -> (Kind, usize) {
        let Size { apis, workers, schedulers, gateways } = self.stage.setting.size;
        let of = |faults: [Fault; 2]| faults.contains(&step.fault);
        if step.fault.is_of_a_clock() {
            let place = step.target / KINDS_OF_PROCESSES;
            return match step.target % KINDS_OF_PROCESSES {
                0 => (Kind::Api, place % apis),
                super::schedule::WORKER => (Kind::Worker, place % workers),
                2 => (Kind::Scheduler, place % schedulers),
                _ => (Kind::Gateway, place % gateways),
            };
        }
        if of([Fault::KillApi, Fault::StopApi]) {
            (Kind::Api, step.target % apis)
        } else if of([Fault::KillScheduler, Fault::StopScheduler]) {
            (Kind::Scheduler, step.target % schedulers)
        } else if of([Fault::KillGateway, Fault::StopGateway]) {
            (Kind::Gateway, step.target % gateways)
        } else {
            (Kind::Worker, step.target % workers)
        }
    }

    fn process(&mut self, (kind, index): (Kind, usize)) -> &mut crate::Process {
        match kind {
            Kind::Api => self.stage.cluster.api(index),
            Kind::Worker => self.stage.cluster.worker(index),
            Kind::Scheduler => self.stage.cluster.scheduler(index),
            Kind::Gateway => self.stage.cluster.gateway(index),
        }
    }

    fn kill(&mut self, step: &Step) -> Result<bool> {
        let place = self.place(step);
        self.down.insert((place.0 as usize, place.1));
        self.process(place).kill9()?;
        Ok(true)
    }

    fn restart(&mut self, step: &Step) -> Result<()> {
        let place = self.place(step);
        self.down.remove(&(place.0 as usize, place.1));
        if let Some(release) = self.release.clone() {
            self.process(place).take_release(&release)?;
        }
        self.process(place).relaunch()
    }

    fn stop(&mut self, step: &Step) -> Result<bool> {
        let place = self.place(step);
        self.process(place).pause()?;
        Ok(true)
    }

    /// While the mock takes its time before it books, so that the worker is met between gate and books.
    async fn stop_in_the_middle(&mut self, step: &Step) -> Result<bool> {
        self.slow = true;
        if !self.latency("6000").await {
            return Ok(false);
        }
        sleep(Duration::from_millis(1800)).await;
        let stopped = self.stop(step)?;
        let begun = self.under_way().await.unwrap_or_default();
        let place = self.place(step);
        self.waiting.insert(place.1, begun);
        self.slow = !self.latency(self.stage.setting.latency).await;
        Ok(stopped)
    }

    async fn latency(&self, milliseconds: &str) -> bool {
        for target in 0..self.on_mock().len() {
            if !self.mock(target, &["--latency-ms", milliseconds]).await {
                return false;
            }
        }
        true
    }

    /// What is under way to the mock and not booked yet; some of it is in the hands of the worker that was stopped just now.
    async fn under_way(&self) -> Result<Vec<String>> {
        let unbooked = sqlx::query_scalar(
            "SELECT o.reference FROM operations o JOIN provider_accounts p ON p.id = o.provider_account_id
             WHERE o.state = 'sending' AND p.provider = 'mock' AND o.kind IN ('sale', 'authorize')
               AND NOT EXISTS (SELECT FROM mock.transactions t WHERE t.account = p.id AND t.reference = o.reference)",
        );
        Ok(unbooked.fetch_all(&self.stage.db).await?)
    }

    /// Of these, what others have ended meanwhile, or given up on: whoever claims work now has no reason to send it.
    async fn settled(&self, references: Vec<String>) -> Result<Vec<String>> {
        let settled = sqlx::query_scalar(
            "SELECT reference FROM operations
             WHERE reference = ANY ($1) AND (finished_at IS NOT NULL OR (state = 'unknown' AND next_push_at IS NULL))",
        );
        Ok(settled.bind(references).fetch_all(&self.stage.db).await?)
    }

    /// What passes now from the worker to the books was about to be sent when it was stopped.
    async fn resume(&mut self, step: &Step) -> Result<()> {
        let place = self.place(step);
        if place.0 == Kind::Worker {
            let begun = self.waiting.remove(&place.1).unwrap_or_default();
            // Postgres may be away: then this worker's late sends are not counted.
            let watched = self.settled(begun).await.unwrap_or_default();
            self.stage.wires.postgres[place.1].watch(watched);
        }
        self.process(place).resume()
    }

    fn postgres(&self, mode: Mode) {
        self.stage.wires.postgres.iter().for_each(|proxy| proxy.set(mode));
    }

    fn gateway(&self, mode: Mode) {
        self.stage.wires.gateway.iter().for_each(|proxy| proxy.set(mode));
    }

    /// Takes every connection there is, and has the others make theirs anew.
    async fn crowd(&mut self) -> Result<bool> {
        let url = self.stage.cluster.database_url().to_owned();
        self.postgres(Mode::Cut);
        let mut refused = false;
        while self.crowd.len() < CONNECTIONS {
            match PgConnection::connect(&url).await {
                Ok(connection) => self.crowd.push(connection),
                Err(error) => {
                    refused =
                        error.as_database_error().and_then(|said| said.code()).as_deref() == Some(NO_CONNECTION_LEFT);
                    break;
                }
            }
        }
        self.postgres(Mode::Pass);
        if !refused {
            // It was away: then this is not what it is called.
            self.crowd.clear();
        }
        Ok(refused)
    }

    /// A file that takes all the room.
    fn fill(&mut self) -> Result<bool> {
        let Some(disk) = &self.stage.disk else { return Ok(false) };
        let mut file = OpenOptions::new().create(true).append(true).open(disk.0.join("balloon"))?;
        let block = vec![0u8; 1 << 20];
        while file.write_all(&block).is_ok() {}
        while file.write_all(&block[..4096]).is_ok() {}
        Ok(true)
    }

    async fn empty(&mut self) -> Result<()> {
        if let Some(disk) = &self.stage.disk {
            std::fs::remove_file(disk.0.join("balloon"))?;
        }
        if self.postgres_runs()? { Ok(()) } else { self.revive().await }
    }

    fn is_full(&self) -> bool {
        self.stage.disk.as_ref().is_some_and(|disk| disk.0.join("balloon").exists())
    }

    fn postgres_runs(&mut self) -> Result<bool> {
        self.stage.cluster.postgres.as_mut().context("its own")?.is_running()
    }

    async fn revive(&mut self) -> Result<()> {
        let postgres = self.stage.cluster.postgres.as_mut().context("its own")?;
        postgres.restart().await
    }
}
