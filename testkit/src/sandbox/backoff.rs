//! When to restart a process that has exited by itself.

use std::time::Duration;

use tokio::time::Instant;

const MIN_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(10);
/// A process that has run this long counts as started successfully.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// The restart delay of one process, doubled at each exit soon after a start.
#[derive(Debug)]
pub(super) struct Backoff {
    delay: Duration,
    started: Instant,
    due: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It has just exited: report that it will be restarted after this delay.
    Announce(Duration),
    Wait,
    Start,
}

impl Backoff {
    pub(super) fn new(now: Instant) -> Self {
        Self { delay: MIN_DELAY, started: now, due: None }
    }

    /// The next step. Called repeatedly while the process is not running.
    pub(super) fn step(&mut self, now: Instant) -> Step {
        match self.due {
            None => {
                if now.duration_since(self.started) >= STABLE_AFTER {
                    self.delay = MIN_DELAY;
                }
                self.due = Some(now + self.delay);
                Step::Announce(self.delay)
            }
            Some(due) if now < due => Step::Wait,
            Some(_) => {
                self.delay = (self.delay * 2).min(MAX_DELAY);
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
    fn delay_doubles_and_resets_after_a_stable_run() {
        let mut now = Instant::now();
        let mut backoff = Backoff::new(now);
        let mut waited = Vec::new();
        for _ in 0..7 {
            let Step::Announce(delay) = backoff.step(now) else { panic!("the first step must be Announce") };
            waited.push(delay.as_millis());
            assert_eq!(backoff.step(now), Step::Wait);
            now += delay;
            assert_eq!(backoff.step(now), Step::Start);
        }
        assert_eq!(waited, [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        now += STABLE_AFTER;
        assert_eq!(backoff.step(now), Step::Announce(MIN_DELAY));
    }
}
