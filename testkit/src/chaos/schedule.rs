//! What happens when: it follows from the seed, the length of the run and what the machine can do, and from nothing else.

use std::{collections::BTreeMap, time::Duration};

use super::{random::Random, setting::Setting};

const WORKERS: usize = Setting::WHOLE.size.workers;

/// A kind of fault. A run counts only if each that the machine can do has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    KillApi,
    KillWorker,
    KillScheduler,
    KillGateway,
    StopApi,
    StopWorker,
    StopScheduler,
    StopGateway,
    RedisFlush,
    RedisRestart,
    RedisCut,
    RedisDelay,
    PostgresRestart,
    PostgresConnections,
    PostgresFull,
    PostgresCut,
    PostgresDelay,
    GatewayCut,
    GatewayLose,
    GatewayDelay,
    GatewayFail,
    GatewayDrip,
    MockLose,
    MockDelay,
    MockRefuse,
    ClockSlight,
    ClockSeconds,
    ClockHours,
    ClockMonths,
    ClockRestart,
    GatewayRefuse,
    GatewayTurnAway,
    MockOutage,
    RotateKeys,
    MoveAccount,
}

use Fault::{
    ClockHours, ClockMonths, ClockRestart, ClockSeconds, ClockSlight, GatewayCut, GatewayDelay, GatewayDrip,
    GatewayFail, GatewayLose, GatewayRefuse, GatewayTurnAway, KillApi, KillGateway, KillScheduler, KillWorker,
    MockDelay, MockLose, MockOutage, MockRefuse, MoveAccount, PostgresConnections, PostgresCut, PostgresDelay,
    PostgresFull, PostgresRestart, RedisCut, RedisDelay, RedisFlush, RedisRestart, RotateKeys, StopApi, StopGateway,
    StopScheduler, StopWorker,
};

impl Fault {
    /// All of them, with their names in the report.
    pub(super) const ALL: [(Self, &'static str); 35] = [
        (KillApi, "api killed (-9)"),
        (KillWorker, "worker killed (-9)"),
        (KillScheduler, "scheduler killed (-9)"),
        (KillGateway, "gateway killed (-9)"),
        (StopApi, "api stopped beyond the lease"),
        (StopWorker, "worker stopped beyond the lease"),
        (StopScheduler, "scheduler stopped beyond the lease"),
        (StopGateway, "gateway stopped beyond the lease"),
        (RedisFlush, "Redis FLUSHALL"),
        (RedisRestart, "Redis killed and restarted empty"),
        (RedisCut, "connections to Redis cut"),
        (RedisDelay, "answers of Redis delayed"),
        (PostgresRestart, "Postgres restarted at once"),
        (PostgresConnections, "Postgres out of connections"),
        (PostgresFull, "disk of Postgres full"),
        (PostgresCut, "connections to Postgres cut"),
        (PostgresDelay, "answers of Postgres delayed"),
        (GatewayCut, "connections to the gateway cut"),
        (GatewayLose, "answers of the gateway lost"),
        (GatewayDelay, "answers of the gateway beyond the time-out"),
        (GatewayFail, "5xx in place of the gateway's answer"),
        (GatewayDrip, "answers of the gateway byte by byte"),
        (MockLose, "answers of the mock lost"),
        (MockDelay, "mock slower than the time-out"),
        (MockRefuse, "requests turned away by the mock"),
        (ClockSlight, "clock of a process off by less than 2 s"),
        (ClockSeconds, "clock of a process off by seconds"),
        (ClockHours, "clock of a process off by hours"),
        (ClockMonths, "clock of a process off by months"),
        (ClockRestart, "process restarted with a wrong clock"),
        (GatewayRefuse, "outage: gateway refuses connections"),
        (GatewayTurnAway, "outage: gateway answers 429"),
        (MockOutage, "outage: mock turns everything away"),
        (RotateKeys, "keys of a gateway account rotated"),
        (MoveAccount, "account moved to another provider"),
    ];

    /// Those that a release from before them does not withstand.
    pub(super) const NEW: [Self; 10] = [
        ClockSlight,
        ClockSeconds,
        ClockHours,
        ClockMonths,
        ClockRestart,
        GatewayRefuse,
        GatewayTurnAway,
        MockOutage,
        RotateKeys,
        MoveAccount,
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fault, _)| *fault == self).map_or("", |(_, name)| name)
    }

    /// Whether the clock of one process is set wrong.
    pub(super) fn is_of_a_clock(self) -> bool {
        [ClockSlight, ClockSeconds, ClockHours, ClockMonths, ClockRestart].contains(&self)
    }

    /// Whether a 500 of ours may come of it: the database is missing, or somebody stopped holds its locks.
    pub(super) fn explains_a_500(self) -> bool {
        let of = [PostgresRestart, PostgresConnections, PostgresFull, PostgresCut, PostgresDelay];
        of.contains(&self) || [StopApi, StopWorker, StopScheduler, StopGateway].contains(&self)
    }

    /// By how many milliseconds a clock is ahead, or behind.
    fn shift(self, random: &mut Random) -> i64 {
        const HOUR: u64 = 3_600_000;
        const DAY: u64 = 24 * HOUR;
        if !self.is_of_a_clock() {
            return 0;
        }
        let (ahead, far) = (random.percent(65), random.percent(50));
        let (least, most) = if self == ClockSlight {
            (300, 1700)
        } else if self == ClockSeconds {
            (3000, 90_000)
        } else if self == ClockMonths || (self == ClockRestart && far) {
            (31 * DAY, 400 * DAY)
        } else {
            (HOUR, 72 * HOUR)
        };
        let by = i64::try_from(random.between(least, most)).unwrap_or(0);
        if ahead { by } else { -by }
    }

    /// For how long it holds, in milliseconds. In a long run an outage of a provider may take minutes.
    fn lasts(self, random: &mut Random, load: Duration) -> u64 {
        let outage = match (load >= LONG, random.percent(25)) {
            (true, true) => (60_000, 150_000),
            (true, false) => (15_000, 40_000),
            (false, _) => (10_000, 14_000),
        };
        match self {
            // A process compares its clock with the database's every 5 s.
            ClockSlight | ClockSeconds | ClockHours | ClockMonths | ClockRestart => random.between(9000, 12_000),
            GatewayRefuse | GatewayTurnAway | MockOutage => random.between(outage.0, outage.1),
            RotateKeys => 0,
            MoveAccount => random.between(4000, 9000),
            StopWorker => random.between(28_000, 31_000),
            StopApi | StopScheduler | StopGateway => random.between(22_000, 26_000),
            KillApi | KillWorker | KillScheduler | KillGateway => random.between(0, 3000),
            RedisFlush | MockLose => 0,
            RedisRestart => random.between(200, 2500),
            // Sometimes longer than a request waits for a connection, so that it is refused.
            PostgresRestart => random.between(200, 9000),
            RedisCut | PostgresCut | GatewayCut => random.between(100, 2000),
            RedisDelay | PostgresDelay | PostgresConnections | PostgresFull => random.between(3000, 6000),
            GatewayLose | GatewayFail => random.between(3000, 5000),
            GatewayDelay | GatewayDrip => random.between(4000, 7000),
            MockDelay => random.between(8000, 14_000),
            MockRefuse => random.between(1500, 3000),
        }
    }
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Duration,
    pub(super) fault: Fault,
    /// Which of the processes or accounts; taken modulo their number.
    pub(super) target: usize,
    pub(super) lasts: Duration,
    /// By how many milliseconds a clock is off.
    pub(super) shift: i64,
}

/// How a run is made up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) load: Duration,
    pub(super) gap: (u64, u64),
    /// Which kinds; all if it is empty.
    pub(super) kinds: &'static [Fault],
}

impl Plan {
    /// Whether it wants such faults.
    pub(super) fn wants(&self, fault: Fault) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&fault)
    }
}

/// When the first thing happens: clients have had time to begin what may be broken.
const FIRST: u64 = 6000;
/// A run from here on has time for long outages, and for what was put off by them.
pub(super) const LONG: Duration = Duration::from_secs(300);

/// All kinds in one order after another, until the load ends. What holds for long comes early enough to end with it, and what a
/// run must have seen in any case, a worker that sends late, has two chances in each order.
pub(super) fn steps(plan: &Plan, left_out: &BTreeMap<Fault, String>) -> Vec<Step> {
    let mut random = Random::new(plan.seed, 1);
    let mut kinds: Vec<Fault> = Fault::ALL
        .map(|(fault, _)| fault)
        .into_iter()
        .filter(|f| plan.wants(*f) && !left_out.contains_key(f))
        .collect();
    if kinds.contains(&StopWorker) {
        kinds.push(StopWorker);
    }
    let mut at = FIRST;
    // Workers that are stopped or have a wrong clock, and until when: they are left alone, or they could send nothing late.
    let mut busy: Vec<(usize, u64)> = Vec::new();
    // Each kind of process has its turn with a wrong clock.
    let mut clocks = random.index(KINDS_OF_PROCESSES);
    let (mut steps, mut round) = (Vec::new(), Vec::new());
    let end = u64::try_from(plan.load.as_millis()).unwrap_or(u64::MAX);
    loop {
        if round.is_empty() {
            round.clone_from(&kinds);
            random.shuffle(&mut round);
            // The last of a round are the first to be taken: what takes longest begins first.
            round.sort_by_key(|fault| {
                let outage = [GatewayRefuse, GatewayTurnAway, MockOutage].contains(fault);
                let stop = [StopApi, StopWorker, StopScheduler, StopGateway].contains(fault);
                u8::from(outage || fault.is_of_a_clock()) + 2 * u8::from(stop)
            });
        }
        let Some(fault) = round.pop() else { return steps };
        let lasts = fault.lasts(&mut random, plan.load);
        let mut target = random.index(1000);
        let shift = fault.shift(&mut random);
        let mut step = 1;
        if fault.is_of_a_clock() {
            target = target * KINDS_OF_PROCESSES + clocks % KINDS_OF_PROCESSES;
            (clocks, step) = (clocks + 1, KINDS_OF_PROCESSES);
        }
        busy.retain(|(_, until)| *until > at);
        if let Some(worker) = worker_of(fault, target) {
            let free = (0..WORKERS).find(|by| !busy.iter().any(|(other, _)| *other == (worker + by) % WORKERS));
            let by = free.unwrap_or(0);
            target += step * by;
            if fault != KillWorker {
                busy.push(((worker + by) % WORKERS, at + lasts));
            }
        }
        if at + lasts.min(3000) > end {
            return steps;
        }
        let milliseconds = Duration::from_millis;
        steps.push(Step { at: milliseconds(at), fault, target, lasts: milliseconds(lasts), shift });
        at += random.between(plan.gap.0, plan.gap.1);
    }
}

/// Api, worker, scheduler, gateway.
pub(super) const KINDS_OF_PROCESSES: usize = 4;
/// Which of them is the worker.
pub(super) const WORKER: usize = 1;

/// Which worker it happens to, if to any.
fn worker_of(fault: Fault, target: usize) -> Option<usize> {
    let of_a_clock = fault.is_of_a_clock() && target % KINDS_OF_PROCESSES == WORKER;
    if of_a_clock {
        Some(target / KINDS_OF_PROCESSES % WORKERS)
    } else {
        [StopWorker, KillWorker].contains(&fault).then_some(target % WORKERS)
    }
}

/// What a run must have seen and has not, because chance would have it otherwise: from now on, and nothing else beside it.
pub(super) fn again(now: Duration, lost: bool, late: bool, failed: bool) -> Vec<Step> {
    let step = |fault, lasts| Step { at: now, fault, target: 0, lasts: Duration::from_secs(lasts), shift: 0 };
    let losing = [step(MockLose, 10), step(GatewayLose, 10)];
    let losing = losing.into_iter().filter(|_| !lost);
    losing.chain((!failed).then(|| step(MockOutage, 12))).chain((!late).then(|| step(StopWorker, 30))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_has_seen_is_not_played_again() {
        let faults = |lost, late, failed| {
            again(Duration::ZERO, lost, late, failed).iter().map(|step| step.fault).collect::<Vec<_>>()
        };
        assert_eq!(faults(true, true, true), []);
        assert_eq!(faults(false, true, true), [MockLose, GatewayLose]);
        assert_eq!(faults(true, false, true), [StopWorker]);
        assert_eq!(faults(true, true, false), [MockOutage]);
    }

    #[test]
    fn a_seed_repeats_its_schedule_and_a_round_has_every_kind() {
        let plan = |seed| Plan { seed, load: Duration::from_secs(600), gap: (3000, 5000), kinds: &[] };
        let all = steps(&plan(1), &BTreeMap::new());
        assert_eq!(all, steps(&plan(1), &BTreeMap::new()));
        assert_ne!(all, steps(&plan(2), &BTreeMap::new()));
        for (fault, name) in Fault::ALL {
            assert!(all[..=Fault::ALL.len()].iter().any(|step| step.fault == fault), "{name}");
        }
    }

    #[test]
    fn every_kind_of_process_gets_a_wrong_clock_and_a_busy_worker_no_second_fault() {
        let plan = Plan { seed: 1, load: Duration::from_secs(90), gap: (1900, 2150), kinds: &[] };
        let all = steps(&plan, &BTreeMap::new());
        let clocks: Vec<&Step> = all.iter().filter(|step| step.fault.is_of_a_clock()).collect();
        for kind in 0..KINDS_OF_PROCESSES {
            assert!(clocks.iter().any(|step| step.target % KINDS_OF_PROCESSES == kind), "{kind} of {clocks:?}");
        }
        assert!(clocks.iter().all(|step| (step.fault == ClockSlight) == (step.shift.abs() < 2000)), "{clocks:?}");
        assert!(all.iter().all(|step| step.fault.is_of_a_clock() || step.shift == 0));
        for stopped in all.iter().filter(|step| step.fault == StopWorker) {
            let during = |step: &&Step| step.at > stopped.at && step.at < stopped.at + stopped.lasts;
            let same = |step: &Step| worker_of(step.fault, step.target) == Some(stopped.target % WORKERS);
            assert!(!all.iter().filter(during).any(same), "{stopped:?}");
        }
        assert!(all.len() >= Fault::ALL.len(), "a short run has room for all, and not only for {}", all.len());
    }
}
