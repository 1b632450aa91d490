//! The order in which faults begin and end.

use std::{collections::VecDeque, time::Duration};

use crate::chaos::{fault::Fault, schedule::Step};

/// What a worker sends this soon after it is resumed, it was about to send when it was stopped.
const LATE_SEND_WINDOW: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Begin,
    End,
    CollectLateSends,
}

/// The remaining phases in chronological order; each entry names its step by index.
pub(super) struct Timetable(VecDeque<(Duration, usize, Phase)>);

impl Timetable {
    pub(super) fn new(steps: &[Step]) -> Self {
        let mut phases = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            phases.extend([(step.at, index, Phase::Begin), (step.at + step.duration, index, Phase::End)]);
            if step.fault == Fault::StopWorker {
                phases.push((step.at + step.duration + LATE_SEND_WINDOW, index, Phase::CollectLateSends));
            }
        }
        phases.sort();
        Self(phases.into())
    }

    pub(super) fn next(&mut self) -> Option<(Duration, usize, Phase)> {
        self.0.pop_front()
    }

    /// Repeats a phase at `later`. The later phases of the step are delayed by as much: a fault that began after its own
    /// end would never end.
    pub(super) fn postpone(&mut self, (at, step, phase): (Duration, usize, Phase), later: Duration) {
        let delay = later.saturating_sub(at);
        self.0.push_front((at, step, phase));
        for next in self.0.iter_mut().filter(|next| next.1 == step) {
            next.0 += delay;
        }
        self.0.make_contiguous().sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_begins_late_ends_late() {
        let second = Duration::from_secs(1);
        let step = |fault, at: u32| Step { at: second * at, fault, target: 0, duration: second * 2, shift: 0 };
        let mut table = Timetable::new(&[step(Fault::PostgresConnections, 1), step(Fault::RedisCut, 2)]);
        let first = table.next().expect("its beginning");
        assert_eq!(first, (second, 0, Phase::Begin));
        table.postpone(first, second * 10);
        let rest: Vec<_> =
            std::iter::from_fn(|| table.next()).map(|(at, step, act)| (at.as_secs(), step, act)).collect();
        assert_eq!(rest, [(2, 1, Phase::Begin), (4, 1, Phase::End), (10, 0, Phase::Begin), (12, 0, Phase::End)]);
    }
}
