//! Whether this process was stopped a while. A request that lay in a socket meanwhile looks new and may be old: its caller may
//! have given up, looked for it, and not found it. So after a pause everything is refused for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(500);
/// A beat that is later by so much means that the process did not run.
const PAUSE: Duration = Duration::from_secs(2);
/// What lay in the sockets is read within this.
const DOUBT: Duration = Duration::from_secs(1);

/// Beats twice a second for as long as the process runs.
#[derive(Clone, Debug)]
pub struct Pulse {
    origin: Instant,
    last: Arc<AtomicU64>,
    steady_from: Arc<AtomicU64>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { origin: Instant::now(), last: Arc::default(), steady_from: Arc::default() }
    }
}

impl Pulse {
    /// Beats for ever.
    pub async fn run(self) {
        loop {
            self.beat(self.now());
            tokio::time::sleep(BEAT).await;
        }
    }

    /// Whether a request that is read now can be believed to be new.
    pub fn is_steady(&self) -> bool {
        self.is_steady_at(self.now())
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn beat(&self, now: Duration) {
        if self.missed(now) {
            self.steady_from.store(millis(now + DOUBT), Ordering::Relaxed);
        }
        self.last.store(millis(now), Ordering::Relaxed);
    }

    fn is_steady_at(&self, now: Duration) -> bool {
        !self.missed(now) && millis(now) >= self.steady_from.load(Ordering::Relaxed)
    }

    fn missed(&self, now: Duration) -> bool {
        millis(now).saturating_sub(self.last.load(Ordering::Relaxed)) > millis(PAUSE)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_pause_nothing_is_believed_for_a_moment() {
        let pulse = Pulse::default();
        let at = Duration::from_millis;
        pulse.beat(at(500));
        assert!(pulse.is_steady_at(at(2_500)));
        assert!(!pulse.is_steady_at(at(2_501)), "before the late beat");
        pulse.beat(at(20_000));
        assert!(!pulse.is_steady_at(at(20_001)) && !pulse.is_steady_at(at(20_999)), "after the late beat");
        assert!(pulse.is_steady_at(at(21_000)));
    }
}
