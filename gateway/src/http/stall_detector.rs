//! Detects that this process was suspended. A request that waited in a socket during that time looks new but may be
//! old: its caller may have timed out, checked the report and found nothing. So after a stall requests are refused for a
//! second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// A heartbeat that is later than this means that the process was not running.
const STALL_THRESHOLD: Duration = Duration::from_secs(2);
/// Requests that waited in sockets are read within this time.
const REFUSAL_AFTER_STALL: Duration = Duration::from_secs(1);

/// Records a heartbeat twice a second while the process runs.
#[derive(Clone, Debug)]
pub struct StallDetector {
    origin: Instant,
    last: Arc<AtomicU64>,
    steady_from: Arc<AtomicU64>,
}

impl Default for StallDetector {
    fn default() -> Self {
        Self { origin: Instant::now(), last: Arc::default(), steady_from: Arc::default() }
    }
}

impl StallDetector {
    /// Runs forever.
    pub async fn run(self) {
        loop {
            self.record_heartbeat(self.now());
            tokio::time::sleep(HEARTBEAT_INTERVAL).await;
        }
    }

    /// Whether a request read now can be trusted to be new.
    pub fn is_steady(&self) -> bool {
        self.is_steady_at(self.now())
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn record_heartbeat(&self, now: Duration) {
        if self.is_overdue(now) {
            self.steady_from.store(millis(now + REFUSAL_AFTER_STALL), Ordering::Relaxed);
        }
        self.last.store(millis(now), Ordering::Relaxed);
    }

    fn is_steady_at(&self, now: Duration) -> bool {
        !self.is_overdue(now) && millis(now) >= self.steady_from.load(Ordering::Relaxed)
    }

    fn is_overdue(&self, now: Duration) -> bool {
        millis(now).saturating_sub(self.last.load(Ordering::Relaxed)) > millis(STALL_THRESHOLD)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_refused_for_a_second_after_a_stall() {
        let stall_detector = StallDetector::default();
        let at = Duration::from_millis;
        stall_detector.record_heartbeat(at(500));
        assert!(stall_detector.is_steady_at(at(2_500)));
        assert!(!stall_detector.is_steady_at(at(2_501)), "before the late heartbeat");
        stall_detector.record_heartbeat(at(20_000));
        assert!(
            !stall_detector.is_steady_at(at(20_001)) && !stall_detector.is_steady_at(at(20_999)),
            "after the late heartbeat"
        );
        assert!(stall_detector.is_steady_at(at(21_000)));
    }
}
