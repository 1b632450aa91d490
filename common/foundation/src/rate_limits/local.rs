//! The buckets of this process, which count only its own requests.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::{Acquisition, Bucket};

/// Maximum number of buckets. When it is reached, full buckets are deleted; if too few are full, all are.
const MAX_BUCKETS: usize = 100_000;

/// For each bucket that is not full, the theoretical arrival time of the next request, in microseconds since the start.
pub(super) struct LocalBuckets {
    began: Instant,
    arrivals: Mutex<HashMap<String, u64>>,
}

impl Default for LocalBuckets {
    fn default() -> Self {
        Self { began: Instant::now(), arrivals: Mutex::default() }
    }
}

impl LocalBuckets {
    pub(super) fn restore_and_acquire(&self, acquire: &[Bucket], restore: &[Bucket]) -> Acquisition {
        let now = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.restore_and_acquire_at(now, acquire, restore)
    }

    fn restore_and_acquire_at(&self, now: u64, acquire: &[Bucket], restore: &[Bucket]) -> Acquisition {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        for bucket in restore {
            if let Some(arrival) = arrivals.get_mut(&bucket.name) {
                *arrival = arrival.saturating_sub(bucket.step_us);
            }
        }
        if arrivals.len() >= MAX_BUCKETS {
            arrivals.retain(|_, arrival| *arrival > now);
            // Otherwise the next request would scan all of them again.
            if arrivals.len() > MAX_BUCKETS / 2 {
                arrivals.clear();
            }
        }
        let mut acquired = Vec::with_capacity(acquire.len());
        for (by, bucket) in acquire.iter().enumerate() {
            let arrival = arrivals.get(&bucket.name).copied().unwrap_or(now).max(now) + bucket.step_us;
            let span = bucket.step_us.saturating_mul(u64::from(bucket.burst));
            let Some(left) = (now + span).checked_sub(arrival) else {
                return Acquisition::Refused { by, wait_us: arrival - now - span };
            };
            acquired.push((bucket, arrival, left));
        }
        let last = acquired.last().map_or((0, 0), |(bucket, arrival, left)| (left / bucket.step_us, arrival - now));
        for (bucket, arrival, _) in acquired {
            arrivals.insert(bucket.name.clone(), arrival);
        }
        Acquisition::Allowed { remaining: u32::try_from(last.0).unwrap_or(u32::MAX), full_in_us: last.1 }
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
        let (local, a) = (LocalBuckets::default(), bucket("a", 3));
        for (remaining, full) in [(2, 1), (1, 2), (0, 3)] {
            let acquisition = local.restore_and_acquire_at(0, std::slice::from_ref(&a), &[]);
            assert_eq!(acquisition, Acquisition::Allowed { remaining, full_in_us: full * SECOND });
        }
        let refused = local.restore_and_acquire_at(SECOND / 2, std::slice::from_ref(&a), &[]);
        assert_eq!(refused, Acquisition::Refused { by: 0, wait_us: SECOND / 2 });
        assert!(matches!(local.restore_and_acquire_at(0, &[bucket("b", 1)], &[]), Acquisition::Allowed { .. }));
        assert!(matches!(local.restore_and_acquire_at(SECOND, &[a], &[]), Acquisition::Allowed { remaining: 0, .. }));
    }

    #[test]
    fn an_empty_bucket_refuses_and_the_others_keep_their_tokens() {
        let (local, both) = (LocalBuckets::default(), [bucket("a", 2), bucket("b", 1)]);
        assert_eq!(
            local.restore_and_acquire_at(0, &both, &[]),
            Acquisition::Allowed { remaining: 0, full_in_us: SECOND }
        );
        assert_eq!(local.restore_and_acquire_at(0, &both, &[]), Acquisition::Refused { by: 1, wait_us: SECOND });
        assert_eq!(
            local.restore_and_acquire_at(0, &both[..1], &[]),
            Acquisition::Allowed { remaining: 0, full_in_us: 2 * SECOND }
        );
    }

    #[test]
    fn restored_tokens_are_available_again_up_to_the_capacity() {
        let (local, a) = (LocalBuckets::default(), [bucket("a", 1)]);
        assert!(matches!(local.restore_and_acquire_at(0, &a, &[]), Acquisition::Allowed { .. }));
        assert!(matches!(local.restore_and_acquire_at(0, &a, &a), Acquisition::Allowed { .. }));
        assert!(matches!(local.restore_and_acquire_at(0, &a, &[]), Acquisition::Refused { .. }));
        for _ in 0..5 {
            local.restore_and_acquire_at(10 * SECOND, &[], &a);
        }
        assert!(matches!(local.restore_and_acquire_at(10 * SECOND, &a, &[]), Acquisition::Allowed { .. }));
        assert!(matches!(local.restore_and_acquire_at(10 * SECOND, &a, &[]), Acquisition::Refused { .. }));
    }
}
