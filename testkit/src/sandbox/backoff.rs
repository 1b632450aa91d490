//! When to start again what has ended by itself.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(10);
/// What has lived this long is taken to have started well.
const GOOD_LIFE: Duration = Duration::from_secs(30);

/// The waiting time of one process: doubled at each end that follows soon upon a start.
#[derive(Debug)]
pub(super) struct Backoff {
    delay: Duration,
    started: Instant,
    due: Option<Instant>,
}

/// What to do about a process that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It has just ended: say that it is started again after this time.
    Announce(Duration),
    /// The time has not come.
    Wait,
    /// Start it now.
    Start,
}

impl Backoff {
    pub(super) fn new(now: Instant) -> Self {
        Self { delay: FIRST, started: now, due: None }
    }

    /// Asked again and again while the process is not running.
    pub(super) fn step(&mut self, now: Instant) -> Step {
        match self.due {
            None => {
                if now.duration_since(self.started) >= GOOD_LIFE {
                    self.delay = FIRST;
                }
                self.due = Some(now + self.delay);
                Step::Announce(self.delay)
            }
            Some(due) if now < due => Step::Wait,
            Some(_) => {
                self.delay = (self.delay * 2).min(LONGEST);
                self.started = now;
                self.due = None;
                Step::Start
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_longer_each_time_and_forgives_a_good_life() {
        let mut now = Instant::now();
        let mut backoff = Backoff::new(now);
        let mut waited = Vec::new();
        for _ in 0..7 {
            let Step::Announce(delay) = backoff.step(now) else { panic!("an end is announced first") };
            waited.push(delay.as_millis());
            assert_eq!(backoff.step(now), Step::Wait);
            now += delay;
            assert_eq!(backoff.step(now), Step::Start);
        }
        assert_eq!(waited, [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        now += GOOD_LIFE;
        assert_eq!(backoff.step(now), Step::Announce(FIRST));
    }
}
