//! Buckets of this process alone.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};

use common::accounts::Rate;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};

use super::{Policy, Verdict};

/// Buckets kept at most; beyond, those that are full again are forgotten.
const MAX_BUCKETS: usize = 10_000;

type Buckets<K> = RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock, StateInformationMiddleware>;

/// One limiter for each rate in use: there are few rates and many keys.
pub(super) struct Local<K: Hash + Eq + Clone>(Mutex<HashMap<Rate, Buckets<K>>>);

impl<K: Hash + Eq + Clone> Default for Local<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone> Local<K> {
    pub(super) fn take(&self, key: K, rate: Rate, policy: Policy) -> Verdict {
        let mut limiters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets = limiters.entry(rate).or_insert_with(|| {
            let of = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
            let quota = Quota::per_second(of(rate.per_second)).allow_burst(of(rate.burst));
            RateLimiter::keyed(quota).with_middleware::<StateInformationMiddleware>()
        });
        if buckets.len() > MAX_BUCKETS {
            buckets.retain_recent();
        }
        let step_ms = 1000_u64.div_ceil(u64::from(rate.per_second.max(1)));
        match buckets.check_key(&key) {
            Ok(state) => {
                let remaining = state.remaining_burst_capacity();
                let taken = u64::from(rate.burst.saturating_sub(remaining));
                Verdict { policy, rate, allowed: true, remaining, reset_ms: taken * step_ms }
            }
            Err(until) => {
                let wait = until.wait_time_from(DefaultClock::default().now());
                let reset_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                Verdict { policy, rate, allowed: false, remaining: 0, reset_ms }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_refused_for_each_key() {
        let (local, rate) = (Local::default(), Rate { per_second: 1, burst: 3 });
        for remaining in [2, 1, 0] {
            let verdict = local.take("a", rate, Policy::Key);
            assert!(verdict.allowed && verdict.remaining == remaining, "{verdict:?}");
        }
        let refused = local.take("a", rate, Policy::Key);
        assert!(!refused.allowed && (1..=1000).contains(&refused.reset_ms), "{refused:?}");
        assert!(local.take("b", rate, Policy::Key).allowed);
        assert!(
            local.take("a", Rate { per_second: 1, burst: 4 }, Policy::Key).allowed,
            "another rate is another bucket"
        );
    }
}
