//! The schedule of faults, determined by the seed, the length of the run and the abilities of the machine.

use std::{collections::BTreeMap, time::Duration};

use super::{fault::Fault, system_config::SystemConfig};
use crate::random::Random;

const WORKERS: usize = SystemConfig::FULL.size.workers;

use Fault::{
    ClockHours, ClockMonths, ClockRestart, ClockSeconds, ClockSlight, GatewayCut, GatewayDelay, GatewayDrip,
    GatewayFail, GatewayLose, GatewayRefuse, GatewayTooManyRequests, KillApi, KillGateway, KillScheduler, KillWorker,
    MockDelay, MockLose, MockOutage, MockRefuse, MoveAccount, PostgresConnections, PostgresCut, PostgresDelay,
    PostgresFull, PostgresRestart, RedisCut, RedisDelay, RedisFlush, RedisRestart, RotateKeys, StopApi, StopGateway,
    StopScheduler, StopWorker,
};

/// One scheduled fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Duration,
    pub(super) fault: Fault,
    /// Selects the process or account, modulo their number.
    pub(super) target: usize,
    pub(super) duration: Duration,
    /// The clock offset in milliseconds.
    pub(super) shift: i64,
}

/// The parameters of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) load: Duration,
    pub(super) gap: (u64, u64),
    /// The kinds of faults to use; all if empty.
    pub(super) kinds: &'static [Fault],
    pub(super) minimums: Minimums,
}

/// The minimum counts for a run to be conclusive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Minimums {
    /// Charges with a lost response.
    pub(super) lost_responses: usize,
    pub(super) late_sends: usize,
}

impl Plan {
    /// Whether faults of this kind are used.
    pub(super) fn includes(&self, fault: Fault) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&fault)
    }
}

/// The first fault, in milliseconds after the start: clients need time to begin their work.
const FIRST_FAULT_MS: u64 = 6000;
/// A run of at least this length has time for long outages and for the work that they defer.
pub(super) const LONG: Duration = Duration::from_secs(300);

/// Rounds of all kinds in random order, until the load ends. Long faults come first in a round, so that they end with
/// the load. A stopped worker, whose late send every run must see, occurs twice in each round.
pub(super) fn steps(plan: &Plan, left_out: &BTreeMap<Fault, String>) -> Vec<Step> {
    let mut random = Random::stream(plan.seed, 1);
    let mut kinds: Vec<Fault> = Fault::ALL
        .map(|(fault, _)| fault)
        .into_iter()
        .filter(|f| plan.includes(*f) && !left_out.contains_key(f))
        .collect();
    if kinds.contains(&StopWorker) {
        kinds.push(StopWorker);
    }
    let mut at = FIRST_FAULT_MS;
    // Workers that are stopped or have a wrong clock, and until when. Another fault on them could prevent late sends.
    let mut unavailable_workers: Vec<(usize, u64)> = Vec::new();
    // Each kind of process gets a wrong clock in turn.
    let mut next_clock_kind = random.index(PROCESS_KINDS);
    let (mut steps, mut round) = (Vec::new(), Vec::new());
    let end = u64::try_from(plan.load.as_millis()).unwrap_or(u64::MAX);
    loop {
        if round.is_empty() {
            round.clone_from(&kinds);
            random.shuffle(&mut round);
            // Faults are taken from the end: the longest ones come first.
            round.sort_by_key(|fault| {
                let outage = [GatewayRefuse, GatewayTooManyRequests, MockOutage].contains(fault);
                let stop = [StopApi, StopWorker, StopScheduler, StopGateway].contains(fault);
                u8::from(outage || fault.sets_clock()) + 2 * u8::from(stop)
            });
        }
        let Some(fault) = round.pop() else { return steps };
        let duration = duration(fault, &mut random, plan.load);
        let mut target = random.index(1000);
        let shift = shift(fault, &mut random);
        let mut step = 1;
        if fault.sets_clock() {
            target = target * PROCESS_KINDS + next_clock_kind % PROCESS_KINDS;
            (next_clock_kind, step) = (next_clock_kind + 1, PROCESS_KINDS);
        }
        unavailable_workers.retain(|(_, until)| *until > at);
        if let Some(worker) = worker_of(fault, target) {
            let available = (0..WORKERS)
                .find(|offset| !unavailable_workers.iter().any(|(other, _)| *other == (worker + offset) % WORKERS));
            let offset = available.unwrap_or(0);
            target += step * offset;
            if fault != KillWorker {
                unavailable_workers.push(((worker + offset) % WORKERS, at + duration));
            }
        }
        if at + duration.min(3000) > end {
            return steps;
        }
        let milliseconds = Duration::from_millis;
        steps.push(Step { at: milliseconds(at), fault, target, duration: milliseconds(duration), shift });
        at += random.between(plan.gap.0, plan.gap.1);
    }
}

/// The number of process kinds: api, worker, scheduler, gateway.
pub(super) const PROCESS_KINDS: usize = 4;
/// The index of workers among them.
pub(super) const WORKER_KIND: usize = 1;

/// The worker that the fault affects, if any.
fn worker_of(fault: Fault, target: usize) -> Option<usize> {
    let is_clock_fault = fault.sets_clock() && target % PROCESS_KINDS == WORKER_KIND;
    if is_clock_fault {
        Some(target / PROCESS_KINDS % WORKERS)
    } else {
        [StopWorker, KillWorker].contains(&fault).then_some(target % WORKERS)
    }
}

/// The faults for required events that have not occurred by chance, each without other faults at the same time.
pub(super) fn extra_steps(now: Duration, lost: bool, late: bool, failed: bool) -> Vec<Step> {
    let step = |fault, duration| Step { at: now, fault, target: 0, duration: Duration::from_secs(duration), shift: 0 };
    let losing = [step(MockLose, 10), step(GatewayLose, 10)];
    let losing = losing.into_iter().filter(|_| !lost);
    losing.chain((!failed).then(|| step(MockOutage, 12))).chain((!late).then(|| step(StopWorker, 30))).collect()
}

/// The clock offset in milliseconds; negative if the clock is behind.
fn shift(fault: Fault, random: &mut Random) -> i64 {
    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;
    if !fault.sets_clock() {
        return 0;
    }
    let (ahead, far_off) = (random.percent(65), random.percent(50));
    let (min, max) = if fault == ClockSlight {
        (300, 1700)
    } else if fault == ClockSeconds {
        (3000, 90_000)
    } else if fault == ClockMonths || (fault == ClockRestart && far_off) {
        (31 * DAY, 400 * DAY)
    } else {
        (HOUR, 72 * HOUR)
    };
    let offset = i64::try_from(random.between(min, max)).unwrap_or(0);
    if ahead { offset } else { -offset }
}

/// The duration in milliseconds. In a long run an outage of a provider may last minutes.
fn duration(fault: Fault, random: &mut Random, load: Duration) -> u64 {
    let outage = match (load >= LONG, random.percent(25)) {
        (true, true) => (60_000, 150_000),
        (true, false) => (15_000, 40_000),
        (false, _) => (10_000, 14_000),
    };
    match fault {
        // A process compares its clock with the database's every 5 s.
        ClockSlight | ClockSeconds | ClockHours | ClockMonths | ClockRestart => random.between(9000, 12_000),
        GatewayRefuse | GatewayTooManyRequests | MockOutage => random.between(outage.0, outage.1),
        RotateKeys => 0,
        MoveAccount => random.between(4000, 9000),
        StopWorker => random.between(28_000, 31_000),
        StopApi | StopScheduler | StopGateway => random.between(22_000, 26_000),
        KillApi | KillWorker | KillScheduler | KillGateway => random.between(0, 3000),
        RedisFlush | MockLose => 0,
        RedisRestart => random.between(200, 2500),
        // Sometimes longer than a request waits for a connection, so that the request fails.
        PostgresRestart => random.between(200, 9000),
        RedisCut | PostgresCut | GatewayCut => random.between(100, 2000),
        RedisDelay | PostgresDelay | PostgresConnections | PostgresFull => random.between(3000, 6000),
        GatewayLose | GatewayFail => random.between(3000, 5000),
        GatewayDelay | GatewayDrip => random.between(4000, 7000),
        MockDelay => random.between(8000, 14_000),
        MockRefuse => random.between(1500, 3000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_steps_cover_only_what_is_missing() {
        let faults = |lost, late, failed| {
            extra_steps(Duration::ZERO, lost, late, failed).iter().map(|step| step.fault).collect::<Vec<_>>()
        };
        assert_eq!(faults(true, true, true), []);
        assert_eq!(faults(false, true, true), [MockLose, GatewayLose]);
        assert_eq!(faults(true, false, true), [StopWorker]);
        assert_eq!(faults(true, true, false), [MockOutage]);
    }

    #[test]
    fn schedules_are_reproducible_and_rounds_contain_every_kind() {
        let plan = |seed| Plan {
            seed,
            load: Duration::from_secs(600),
            gap: (3000, 5000),
            kinds: &[],
            minimums: Minimums::default(),
        };
        let all = steps(&plan(1), &BTreeMap::new());
        assert_eq!(all, steps(&plan(1), &BTreeMap::new()));
        assert_ne!(all, steps(&plan(2), &BTreeMap::new()));
        for (fault, name) in Fault::ALL {
            assert!(all[..=Fault::ALL.len()].iter().any(|step| step.fault == fault), "{name}");
        }
    }

    #[test]
    fn process_kinds_take_turns_and_worker_faults_do_not_overlap() {
        let plan = Plan {
            seed: 1,
            load: Duration::from_secs(90),
            gap: (1900, 2150),
            kinds: &[],
            minimums: Minimums::default(),
        };
        let all = steps(&plan, &BTreeMap::new());
        let clock_steps: Vec<&Step> = all.iter().filter(|step| step.fault.sets_clock()).collect();
        for kind in 0..PROCESS_KINDS {
            assert!(clock_steps.iter().any(|step| step.target % PROCESS_KINDS == kind), "{kind} of {clock_steps:?}");
        }
        assert!(
            clock_steps.iter().all(|step| (step.fault == ClockSlight) == (step.shift.abs() < 2000)),
            "{clock_steps:?}"
        );
        assert!(all.iter().all(|step| step.fault.sets_clock() || step.shift == 0));
        for stopped in all.iter().filter(|step| step.fault == StopWorker) {
            let during = |step: &&Step| step.at > stopped.at && step.at < stopped.at + stopped.duration;
            let same = |step: &Step| worker_of(step.fault, step.target) == Some(stopped.target % WORKERS);
            assert!(!all.iter().filter(during).any(same), "{stopped:?}");
        }
        assert!(
            all.len() >= Fault::ALL.len(),
            "a short run includes every kind of fault; this one has only {} steps",
            all.len()
        );
    }
}
