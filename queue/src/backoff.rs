//! Delays between reconnection attempts.

use std::time::Duration;

const MIN_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(2);

/// Doubles from 100 ms to 2 s. Each delay is randomly shortened by up to half, so that processes do not reconnect to
/// the same Redis at the same time.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { next: MIN_DELAY }
    }

    /// The delay before the next attempt.
    pub(crate) fn next(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(MAX_DELAY);
        // Without randomness the delay is not shortened, which is harmless.
        let random = getrandom::u32().unwrap_or(u32::MAX);
        delay.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
    }

    /// Starts over after a successful attempt.
    pub(crate) const fn reset(&mut self) {
        self.next = MIN_DELAY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_two_seconds_and_start_over() {
        let mut backoff = Backoff::new();
        for max_ms in [100, 200, 400, 800, 1_600, 2_000, 2_000] {
            let max = Duration::from_millis(max_ms);
            let delay = backoff.next();
            assert!(delay >= max / 2 && delay <= max, "{delay:?} for {max:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= MIN_DELAY);
    }
}
