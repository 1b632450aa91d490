//! Buckets of this process: of what it has let in itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::{Bucket, Taken};

/// Buckets kept at most. At that many the full ones are forgotten, and if few are full, all are.
const MAX_BUCKETS: usize = 100_000;

/// The theoretical arrival time of the next request of each bucket that is not full, in microseconds since the start.
pub(super) struct Local {
    began: Instant,
    arrivals: Mutex<HashMap<String, u64>>,
}

impl Default for Local {
    fn default() -> Self {
        Self { began: Instant::now(), arrivals: Mutex::default() }
    }
}

impl Local {
    pub(super) fn exchange(&self, take: &[Bucket], give_back: &[Bucket]) -> Taken {
        let now = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.exchange_at(now, take, give_back)
    }

    fn exchange_at(&self, now: u64, take: &[Bucket], give_back: &[Bucket]) -> Taken {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        for bucket in give_back {
            if let Some(arrival) = arrivals.get_mut(&bucket.name) {
                *arrival = arrival.saturating_sub(bucket.step_us);
            }
        }
        if arrivals.len() >= MAX_BUCKETS {
            arrivals.retain(|_, arrival| *arrival > now);
            // Not to look through all of them again with the next request.
            if arrivals.len() > MAX_BUCKETS / 2 {
                arrivals.clear();
            }
        }
        let mut taken = Vec::with_capacity(take.len());
        for (by, bucket) in take.iter().enumerate() {
            let arrival = arrivals.get(&bucket.name).copied().unwrap_or(now).max(now) + bucket.step_us;
            let span = bucket.step_us.saturating_mul(u64::from(bucket.burst));
            let Some(left) = (now + span).checked_sub(arrival) else {
                return Taken::Refused { by, wait_us: arrival - now - span };
            };
            taken.push((bucket, arrival, left));
        }
        let last = taken.last().map_or((0, 0), |(bucket, arrival, left)| (left / bucket.step_us, arrival - now));
        for (bucket, arrival, _) in taken {
            arrivals.insert(bucket.name.clone(), arrival);
        }
        Taken::Allowed { remaining: u32::try_from(last.0).unwrap_or(u32::MAX), full_in_us: last.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(name: &str, burst: u32) -> Bucket {
        Bucket::per_second(name.to_owned(), 1, burst)
    }

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_burst_is_allowed_and_then_refused_for_each_bucket() {
        let (local, a) = (Local::default(), bucket("a", 3));
        for (remaining, full) in [(2, 1), (1, 2), (0, 3)] {
            let taken = local.exchange_at(0, std::slice::from_ref(&a), &[]);
            assert_eq!(taken, Taken::Allowed { remaining, full_in_us: full * SECOND });
        }
        let refused = local.exchange_at(SECOND / 2, std::slice::from_ref(&a), &[]);
        assert_eq!(refused, Taken::Refused { by: 0, wait_us: SECOND / 2 });
        assert!(matches!(local.exchange_at(0, &[bucket("b", 1)], &[]), Taken::Allowed { .. }));
        assert!(matches!(local.exchange_at(SECOND, &[a], &[]), Taken::Allowed { remaining: 0, .. }));
    }

    #[test]
    fn one_empty_bucket_refuses_and_takes_nothing_from_the_others() {
        let (local, both) = (Local::default(), [bucket("a", 2), bucket("b", 1)]);
        assert_eq!(local.exchange_at(0, &both, &[]), Taken::Allowed { remaining: 0, full_in_us: SECOND });
        assert_eq!(local.exchange_at(0, &both, &[]), Taken::Refused { by: 1, wait_us: SECOND });
        assert_eq!(local.exchange_at(0, &both[..1], &[]), Taken::Allowed { remaining: 0, full_in_us: 2 * SECOND });
    }

    #[test]
    fn what_is_given_back_is_there_again_and_no_more_than_that() {
        let (local, a) = (Local::default(), [bucket("a", 1)]);
        assert!(matches!(local.exchange_at(0, &a, &[]), Taken::Allowed { .. }));
        assert!(matches!(local.exchange_at(0, &a, &a), Taken::Allowed { .. }));
        assert!(matches!(local.exchange_at(0, &a, &[]), Taken::Refused { .. }));
        for _ in 0..5 {
            local.exchange_at(10 * SECOND, &[], &a);
        }
        assert!(matches!(local.exchange_at(10 * SECOND, &a, &[]), Taken::Allowed { .. }));
        assert!(matches!(local.exchange_at(10 * SECOND, &a, &[]), Taken::Refused { .. }));
    }
}
