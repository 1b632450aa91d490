//! When an attempt that failed is made again.

use std::time::Duration;

use crate::proof::{self, Rule};

/// How long after each failed attempt the next is made (docs/webhooks.md, Retries). After the last there is none.
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
/// Each is drawn from so much less to so much more, so that what failed together does not come back together.
const JITTER: f64 = 0.1;
/// An endpoint that asks for more time than this gets this much.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// The time from the failure of this attempt (1 is the first) to the next; none if it was the last. `chance` is drawn from
/// 0 to 1. An endpoint that asked for more time gets it.
pub(super) fn delay(attempt: i16, chance: f64, retry_after: Option<Duration>) -> Option<Duration> {
    if !proof::holds(Rule::Redelivery) {
        return None;
    }
    let delay = *DELAYS.get(usize::try_from(attempt).ok()?.checked_sub(1)?)?;
    let drawn = delay.mul_f64(1.0 - JITTER + 2.0 * JITTER * chance.clamp(0.0, 1.0));
    Some(drawn.max(pause(retry_after).unwrap_or(Duration::ZERO)))
}

/// How long an endpoint that asked for time is left alone.
pub(super) fn pause(retry_after: Option<Duration>) -> Option<Duration> {
    retry_after.map(|asked| asked.min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::check;

    #[test]
    fn ten_attempts_over_three_days_and_a_bit() {
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
    fn who_asks_for_time_gets_it_up_to_a_day() {
        let hour = Duration::from_secs(3600);
        assert_eq!(delay(1, 0.5, Some(hour)), Some(hour));
        assert_eq!(delay(9, 0.5, Some(hour)), Some(DELAYS[8]), "less than the schedule gives changes nothing");
        assert_eq!(delay(1, 0.5, Some(hour * 1000)), Some(LONGEST_PAUSE));
        assert_eq!(delay(10, 0.5, Some(hour)), None, "nor does it make one more attempt");
    }

    #[test]
    fn whatever_is_asked_for_the_next_attempt_is_within_two_days() {
        let asked = proptest::option::of(any::<u64>().prop_map(Duration::from_secs));
        check((any::<i16>(), any::<f64>(), asked), |(attempt, chance, asked)| {
            let chance = if chance.is_nan() { 0.5 } else { chance };
            let next = delay(attempt, chance, asked);
            assert_eq!(next.is_some(), (1..10).contains(&attempt));
            assert!(next.is_none_or(|next| next >= DELAYS[0].mul_f64(0.9) && next <= 2 * LONGEST_PAUSE), "{next:?}");
        });
    }
}
