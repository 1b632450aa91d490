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
}

use Fault::{
    GatewayCut, GatewayDelay, GatewayDrip, GatewayFail, GatewayLose, KillApi, KillGateway, KillScheduler, KillWorker,
    MockDelay, MockLose, MockRefuse, PostgresConnections, PostgresCut, PostgresDelay, PostgresFull, PostgresRestart,
    RedisCut, RedisDelay, RedisFlush, RedisRestart, StopApi, StopGateway, StopScheduler, StopWorker,
};

impl Fault {
    /// All of them, with their names in the report.
    pub(super) const ALL: [(Self, &'static str); 25] = [
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
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fault, _)| *fault == self).map_or("", |(_, name)| name)
    }

    /// For how long it holds, in milliseconds.
    fn lasts(self, random: &mut Random) -> u64 {
        match self {
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

/// When the first thing happens: by then the clients have customers and cards.
const FIRST: u64 = 12_000;

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
    // The worker that is stopped, and until when: it is left alone, or it could send nothing late.
    let mut stopped: Vec<(usize, u64)> = Vec::new();
    let (mut steps, mut round) = (Vec::new(), Vec::new());
    let end = u64::try_from(plan.load.as_millis()).unwrap_or(u64::MAX);
    loop {
        if round.is_empty() {
            round.clone_from(&kinds);
            random.shuffle(&mut round);
            // The last of a round are the first to be taken: what takes longest begins first.
            round.sort_by_key(|fault| matches!(fault, StopApi | StopWorker | StopScheduler | StopGateway));
        }
        let Some(fault) = round.pop() else { return steps };
        let lasts = fault.lasts(&mut random);
        let mut target = random.index(1000);
        stopped.retain(|(_, until)| *until > at);
        if matches!(fault, StopWorker | KillWorker) {
            while stopped.iter().any(|(other, _)| other % WORKERS == target % WORKERS) {
                target += 1;
            }
        }
        if fault == StopWorker {
            stopped.push((target, at + lasts));
        }
        if at + lasts.min(3000) > end {
            return steps;
        }
        let milliseconds = Duration::from_millis;
        steps.push(Step { at: milliseconds(at), fault, target, lasts: milliseconds(lasts) });
        at += random.between(plan.gap.0, plan.gap.1);
    }
}

/// What a run must have seen and has not, because chance would have it otherwise: from now on, and nothing else beside it.
pub(super) fn again(now: Duration, lost: bool, late: bool) -> Vec<Step> {
    let step = |fault, lasts| Step { at: now, fault, target: 0, lasts: Duration::from_secs(lasts) };
    let losing = [step(MockLose, 10), step(GatewayLose, 10)];
    losing.into_iter().filter(|_| !lost).chain((!late).then(|| step(StopWorker, 30))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_has_seen_is_not_played_again() {
        let faults = |lost, late| again(Duration::ZERO, lost, late).iter().map(|step| step.fault).collect::<Vec<_>>();
        assert_eq!(faults(true, true), []);
        assert_eq!(faults(false, true), [MockLose, GatewayLose]);
        assert_eq!(faults(true, false), [StopWorker]);
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
}
