//! Rate limits by the generic cell rate algorithm (GCRA). Buckets are shared by all processes in Redis, and each
//! process also has its own. While Redis is unavailable, or if there is none, only the local buckets apply.
//!
//! One round trip covers several buckets: a request acquires a token from each of them, or from none. The tokens can be
//! restored once it is known that the request should not count.

mod local;
mod shared;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use local::LocalBuckets;
use shared::SharedBuckets;

use crate::network::{client_network, client_site};

/// The limit of an IPv6 /48 as a multiple of the limit of a /64 in it.
const REGION_FACTOR: u32 = 3;

/// A token bucket: its name, rate and capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    name: String,
    /// Microseconds per token.
    step_us: u64,
    burst: u32,
}

impl Bucket {
    /// A bucket that fills at this rate per second.
    pub fn per_second(name: String, rate: u32, burst: u32) -> Self {
        Self::with_period(name, 1_000_000, rate, burst)
    }

    /// A bucket that fills at this rate per minute.
    pub fn per_minute(name: String, rate: u32, burst: u32) -> Self {
        Self::with_period(name, 60_000_000, rate, burst)
    }

    /// A bucket that fills at this rate per hour.
    pub fn per_hour(name: String, rate: u32, burst: u32) -> Self {
        Self::with_period(name, 3_600_000_000, rate, burst)
    }

    fn with_period(name: String, us: u64, rate: u32, burst: u32) -> Self {
        Self { name, step_us: (us / u64::from(rate.max(1))).max(1), burst: burst.max(1) }
    }

    /// The buckets of a client address: its own, and for IPv6 a larger one of the /48, because a client that has one
    /// /64 often has many.
    pub fn of_address(policy: &str, address: IpAddr, rate: u32, burst: u32) -> Vec<Self> {
        Self::of_networks(Self::per_second, policy, address, (rate, burst))
    }

    /// The same at a rate per minute.
    pub fn of_address_per_minute(policy: &str, address: IpAddr, rate: u32, burst: u32) -> Vec<Self> {
        Self::of_networks(Self::per_minute, policy, address, (rate, burst))
    }

    fn of_networks(
        new: fn(String, u32, u32) -> Self,
        policy: &str,
        address: IpAddr,
        (rate, burst): (u32, u32),
    ) -> Vec<Self> {
        let own = new(format!("{policy}:{}", client_network(address)), rate, burst);
        let region_bucket = client_site(address).map(|region| {
            let name = format!("{policy}:{region}/48");
            new(name, rate.saturating_mul(REGION_FACTOR), burst.saturating_mul(REGION_FACTOR))
        });
        [own].into_iter().chain(region_bucket).collect()
    }
}

/// The result of acquiring tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquisition {
    /// Every bucket had a token.
    Allowed {
        /// Tokens left in the last bucket.
        remaining: u32,
        /// Microseconds until the last bucket is full.
        full_in_us: u64,
    },
    /// A bucket was empty, and no token was taken from any.
    Refused {
        /// The index of the empty bucket.
        by: usize,
        /// Microseconds until it has a token.
        wait_us: u64,
    },
}

/// The local and shared buckets. Cheap to clone.
#[derive(Clone)]
pub struct RateLimits {
    shared: Option<SharedBuckets>,
    local: Arc<LocalBuckets>,
}

impl RateLimits {
    /// Shared in Redis, if there is one. If it does not respond within `timeout`, the local buckets decide.
    pub fn new(redis: Option<&queue::Redis>, timeout: Duration) -> Self {
        metrics::counter!("rate_limits_unshared_total").increment(0);
        Self { shared: redis.map(|redis| SharedBuckets::connect(redis, timeout)), local: Arc::default() }
    }

    /// Acquires a token from each bucket, or none if one of them is empty.
    pub async fn acquire(&self, buckets: &[Bucket]) -> Acquisition {
        self.restore_and_acquire(buckets, &[]).await
    }

    /// Restores a token to each bucket.
    pub async fn restore(&self, buckets: &[Bucket]) {
        self.restore_and_acquire(&[], buckets).await;
    }

    /// Stores a mark for all processes, for this long. Whether it is stored, if they share anything.
    pub async fn mark(&self, name: &str, lifetime: Duration) -> bool {
        match &self.shared {
            Some(shared) => shared.mark(name, lifetime).await,
            None => true,
        }
    }

    /// Whether a process has stored such a mark.
    pub async fn is_marked(&self, name: &str) -> bool {
        match &self.shared {
            Some(shared) => shared.is_marked(name).await.unwrap_or(false),
            None => false,
        }
    }

    pub async fn remove_mark(&self, name: &str) {
        if let Some(shared) = &self.shared {
            shared.remove_mark(name).await;
        }
    }

    /// Restores a token to each bucket of `restore`, then acquires one from each of `acquire`, in one round trip. The
    /// local buckets are always counted too: a request that they refuse costs Redis nothing, and when Redis fails no
    /// client starts with a full bucket.
    pub async fn restore_and_acquire(&self, acquire: &[Bucket], restore: &[Bucket]) -> Acquisition {
        let local = self.local.restore_and_acquire(acquire, restore);
        let is_empty = acquire.is_empty() && restore.is_empty();
        let Some(shared) = self.shared.as_ref().filter(|_| !is_empty) else { return local };
        if let Acquisition::Refused { .. } = local {
            if !restore.is_empty() {
                shared.restore_and_acquire(&[], restore).await;
            }
            return local;
        }
        match shared.restore_and_acquire(acquire, restore).await {
            Some(Acquisition::Refused { by, wait_us }) => {
                self.local.restore_and_acquire(&[], acquire);
                Acquisition::Refused { by, wait_us }
            }
            Some(allowed @ Acquisition::Allowed { .. }) => allowed,
            None => local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_has_two_buckets() {
        let of = |address: &str| Bucket::of_address("p", address.parse().expect("an address"), 2, 10);
        assert_eq!(of("192.0.2.7"), [Bucket::per_second("p:192.0.2.7".to_owned(), 2, 10)]);
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
        let wide = Bucket::per_second("p:2001:db8:1::/48".to_owned(), 6, 30);
        assert_eq!(of("2001:db8:1:2::3"), [Bucket::per_second("p:2001:db8:1:2::".to_owned(), 2, 10), wide.clone()]);
        assert_eq!(of("2001:db8:1:9::3")[1], wide);
        let per_minute = Bucket::of_address_per_minute("p", "2001:db8:1:2::3".parse().expect("an address"), 2, 10);
        assert_eq!(per_minute[1], Bucket::per_minute("p:2001:db8:1::/48".to_owned(), 6, 30));
    }
}
