//! The retry schedule of failed attempts.

use std::time::Duration;

use foundation::rule_enabled;

/// The delay after each failed attempt (docs/webhooks.md, Retries). The tenth failure is final.
const DELAYS: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(5 * 3600),
    Duration::from_secs(10 * 3600),
    Duration::from_secs(14 * 3600),
    Duration::from_secs(20 * 3600),
    Duration::from_secs(24 * 3600),
];
/// Each delay varies by this fraction in both directions, so that deliveries that failed together are not retried
/// together.
const JITTER: f64 = 0.1;
/// An upper bound for `Retry-After`.
const MAX_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// The delay from the failure of this attempt (1 is the first) to the next; `None` if it was the last. `chance` is
/// random in 0..=1. A longer `retry_after` extends the delay.
pub(super) fn delay(attempt: i16, chance: f64, retry_after: Option<Duration>) -> Option<Duration> {
    if !rule_enabled!(Redelivery) {
        return None;
    }
    let delay = *DELAYS.get(usize::try_from(attempt).ok()?.checked_sub(1)?)?;
    let jittered = delay.mul_f64(1.0 - JITTER + 2.0 * JITTER * chance.clamp(0.0, 1.0));
    Some(jittered.max(pause(retry_after).unwrap_or(Duration::ZERO)))
}

/// How long an endpoint that sent `Retry-After` is paused.
pub(super) fn pause(retry_after: Option<Duration>) -> Option<Duration> {
    retry_after.map(|requested| requested.min(MAX_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::check;

    #[test]
    fn ten_attempts_with_the_documented_delays() {
        for (attempt, delays) in (1..).zip(DELAYS) {
            let (least, most) = (delay(attempt, 0.0, None), delay(attempt, 1.0, None));
            assert_eq!(least, Some(delays.mul_f64(0.9)));
            assert_eq!(most, Some(delays.mul_f64(1.1)));
            assert_eq!(delay(attempt, 0.5, None), Some(delays));
        }
        assert_eq!(delay(10, 0.5, None), None);
        assert_eq!(delay(0, 0.5, None), None, "there is no attempt before the first");
    }

    #[test]
    fn retry_after_is_respected_up_to_a_day() {
        let hour = Duration::from_secs(3600);
        assert_eq!(delay(1, 0.5, Some(hour)), Some(hour));
        assert_eq!(delay(9, 0.5, Some(hour)), Some(DELAYS[8]), "a shorter Retry-After changes nothing");
        assert_eq!(delay(1, 0.5, Some(hour * 1000)), Some(MAX_PAUSE));
        assert_eq!(delay(10, 0.5, Some(hour)), None, "Retry-After adds no attempt");
    }

    #[test]
    fn the_next_attempt_is_within_two_days_for_any_retry_after() {
        let retry_after = proptest::option::of(any::<u64>().prop_map(Duration::from_secs));
        check((any::<i16>(), any::<f64>(), retry_after), |(attempt, chance, retry_after)| {
            let chance = if chance.is_nan() { 0.5 } else { chance };
            let next = delay(attempt, chance, retry_after);
            assert_eq!(next.is_some(), (1..10).contains(&attempt));
            assert!(next.is_none_or(|next| next >= DELAYS[0].mul_f64(0.9) && next <= 2 * MAX_PAUSE), "{next:?}");
        });
    }
}
