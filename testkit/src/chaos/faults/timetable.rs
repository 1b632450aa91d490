//! When each fault begins and ends.

use std::{collections::VecDeque, time::Duration};

use super::super::schedule::{Fault, Step};
use super::{Act, WAKING};

/// What is left to do, in the order of its time; each entry names its step by its place.
pub(super) struct Timetable(VecDeque<(Duration, usize, Act)>);

impl Timetable {
    pub(super) fn new(steps: &[Step]) -> Self {
        let mut acts = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            acts.extend([(step.at, index, Act::Begin), (step.at + step.lasts, index, Act::End)]);
            if step.fault == Fault::StopWorker {
                acts.push((step.at + step.lasts + WAKING, index, Act::Heard));
            }
        }
        acts.sort();
        Self(acts.into())
    }

    pub(super) fn next(&mut self) -> Option<(Duration, usize, Act)> {
        self.0.pop_front()
    }

    /// Repeats an act at `later`. What follows it in the same step moves by as much: a fault that began after its own end would
    /// never end.
    pub(super) fn postpone(&mut self, (at, step, act): (Duration, usize, Act), later: Duration) {
        let delay = later.saturating_sub(at);
        self.0.push_front((at, step, act));
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
        let step = |fault, at: u32| Step { at: second * at, fault, target: 0, lasts: second * 2, shift: 0 };
        let mut table = Timetable::new(&[step(Fault::PostgresConnections, 1), step(Fault::RedisCut, 2)]);
        let first = table.next().expect("its beginning");
        assert_eq!(first, (second, 0, Act::Begin));
        table.postpone(first, second * 10);
        let rest: Vec<_> =
            std::iter::from_fn(|| table.next()).map(|(at, step, act)| (at.as_secs(), step, act)).collect();
        assert_eq!(rest, [(2, 1, Act::Begin), (4, 1, Act::End), (10, 0, Act::Begin), (12, 0, Act::End)]);
    }
}
