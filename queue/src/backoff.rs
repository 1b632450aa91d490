//! How long to wait before trying again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// Doubles from 100 ms to 2 s. Each wait is shortened by up to half at random, so that processes which lost the same
/// Redis do not come back in step.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// The wait before the next attempt.
    pub(crate) fn next(&mut self) -> Duration {
        let longest = self.next;
        self.next = (longest * 2).min(LONGEST);
        // Without randomness the wait is merely not spread.
        let random = getrandom::u32().unwrap_or(u32::MAX);
        longest.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
    }

    /// Forgets the failures: the last attempt went well.
    pub(crate) const fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_two_seconds_and_begin_again() {
        let mut backoff = Backoff::new();
        for longest_ms in [100, 200, 400, 800, 1_600, 2_000, 2_000] {
            let longest = Duration::from_millis(longest_ms);
            let wait = backoff.next();
            assert!(wait >= longest / 2 && wait <= longest, "{wait:?} for {longest:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
