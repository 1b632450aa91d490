//! The schedule of the faults of containers, determined by the seed and the length of the load.

use std::{sync::LazyLock, time::Duration};

use crate::{chaos::fault::Fault, random::Random};

use Action::{Disconnect, Kill, Pause, Restart};
use Fault::{
    GatewayCut, KillApi, KillGateway, KillScheduler, KillWorker, PostgresCut, PostgresRestart, RedisCut, RedisRestart,
    StopApi, StopGateway, StopScheduler, StopWorker,
};

/// What is done to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// `kill -9`, after which Docker starts it again.
    Kill,
    /// `docker pause`, beyond the lease of 20 s.
    Pause,
    /// It leaves this network and comes back.
    Disconnect(&'static str),
    /// `docker restart`.
    Restart,
}

/// Every kind of fault: what is done to a container of which service, and the fault of processes that it amounts to.
/// For the API, a portal that is killed is nothing but an api that is killed.
const FAULTS: [(Action, &str, Fault); 17] = [
    (Kill, "api", KillApi),
    (Kill, "portal", KillApi),
    (Kill, "worker", KillWorker),
    (Kill, "scheduler", KillScheduler),
    (Kill, "gateway", KillGateway),
    (Pause, "api", StopApi),
    (Pause, "worker", StopWorker),
    (Pause, "scheduler", StopScheduler),
    (Pause, "gateway", StopGateway),
    (Disconnect("database"), "api", PostgresCut),
    (Disconnect("database"), "worker", PostgresCut),
    (Disconnect("database"), "gateway", PostgresCut),
    (Disconnect("redis"), "scheduler", RedisCut),
    (Disconnect("providers"), "worker", GatewayCut),
    (Disconnect("front"), "gateway", GatewayCut),
    (Restart, "postgres", PostgresRestart),
    (Restart, "redis", RedisRestart),
];

pub(super) static KINDS: LazyLock<Vec<Fault>> = LazyLock::new(|| FAULTS.iter().map(|(.., fault)| *fault).collect());

/// The time in which each fault occurs once.
pub(super) const ROUND: Duration = Duration::from_secs(120);

/// A service of compose.yaml and the number of its containers.
pub(super) const SERVICES: [(&str, usize); 8] = [
    ("api", 2),
    ("portal", 1),
    ("worker", 3),
    ("scheduler", 2),
    ("gateway", 2),
    ("postgres", 1),
    ("redis", 1),
    ("balancer", 1),
];

/// One scheduled fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Duration,
    pub(super) duration: Duration,
    pub(super) action: Action,
    pub(super) service: &'static str,
    /// The index of the container among those of the service.
    pub(super) container: usize,
    pub(super) fault: Fault,
}

/// Rounds of all faults in random order. Only the first container of a service is paused, while the other faults, of which
/// there is one at a time, concern the others: so no container has two faults at once.
pub(super) fn steps(seed: u64, load: Duration) -> Vec<Step> {
    let mut random = Random::stream(seed, 1);
    let mut steps = Vec::new();
    for round in 0..load.as_secs() / ROUND.as_secs() {
        let begin = round * ROUND.as_secs() * 1000;
        let mut faults = FAULTS;
        random.shuffle(&mut faults);
        let (pauses, others): (Vec<_>, Vec<_>) = faults.into_iter().partition(|(action, ..)| *action == Pause);
        for faults in [pauses, others] {
            let gap = u64::try_from(ROUND.as_millis() / faults.len() as u128).unwrap_or(u64::MAX);
            for (slot, (action, service, fault)) in (0..).zip(faults) {
                let duration = match action {
                    Kill => 0,
                    Pause => random.between(22_000, 25_000),
                    Disconnect(_) => random.between(3000, 6000),
                    Restart => random.between(1000, 3000),
                };
                let containers = SERVICES.iter().find(|(name, _)| *name == service).map_or(1, |(_, count)| *count);
                let container = if action == Pause || containers == 1 { 0 } else { 1 + random.index(containers - 1) };
                let at = Duration::from_millis(begin + slot * gap + random.below(2000));
                let duration = Duration::from_millis(duration);
                steps.push(Step { at, duration, action, service, container, fault });
            }
        }
    }
    steps.sort_by_key(|step| step.at);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_reproducible_and_each_round_has_every_fault_once() {
        let all = steps(1, 3 * ROUND);
        assert_eq!(all, steps(1, 3 * ROUND));
        assert_ne!(all, steps(2, 3 * ROUND));
        assert_eq!(all.len(), 3 * FAULTS.len());
        for (action, service, fault) in FAULTS {
            for round in 0..3u32 {
                let is_this = |step: &&Step| (step.action, step.service, step.fault) == (action, service, fault);
                let in_round = |step: &&Step| (round * ROUND..(round + 1) * ROUND).contains(&step.at);
                assert_eq!(all.iter().filter(is_this).filter(in_round).count(), 1, "{action:?} {service} in {round}");
            }
        }
    }

    #[test]
    fn faults_end_with_the_load_and_no_container_has_two_at_once() {
        for seed in 0..50 {
            let all = steps(seed, 2 * ROUND);
            for (index, step) in all.iter().enumerate() {
                let end = step.at + step.duration;
                assert!(end <= 2 * ROUND, "{step:?}");
                let of_container = |other: &&Step| (other.service, other.container) == (step.service, step.container);
                let next = all[index + 1..].iter().find(of_container);
                assert!(next.is_none_or(|next| next.at >= end), "{step:?}, {next:?}");
                let lease = Duration::from_secs(20);
                assert!(step.action != Pause || step.duration > lease, "{step:?}");
            }
        }
    }

    #[test]
    fn each_program_is_killed_and_every_service_is_one_of_compose() {
        let compose = include_str!("../../../../compose.yaml");
        for (action, service, _) in FAULTS {
            assert!(compose.contains(&format!("\n  {service}:\n")), "{service}");
            assert!(SERVICES.iter().any(|(name, _)| *name == service), "{service}");
            if let Disconnect(network) = action {
                let (_, of_service) = compose.split_once(&format!("\n  {service}:\n")).expect("a service");
                let networks =
                    of_service.lines().find(|line| line.trim().starts_with("networks: [")).expect("networks");
                assert!(networks.contains(network), "{service} is not in {network}");
            }
        }
        for program in ["api", "portal", "worker", "scheduler", "gateway"] {
            assert!(FAULTS.iter().any(|(action, service, _)| (*action, *service) == (Kill, program)), "{program}");
        }
    }
}
