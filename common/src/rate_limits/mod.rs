//! Rate limits: buckets by the generic cell rate algorithm (GCRA), kept in Redis for all processes together, and in each process
//! too. While Redis is away, or where there is none, the latter alone count.
//!
//! Several buckets are taken from in one round trip: a request takes one from each of them, or from none. What a request has
//! taken can be given back once it is known that it should not count.

mod local;
mod shared;

use std::net::IpAddr;
use std::sync::Arc;

use local::Local;
use shared::Shared;

use crate::network::{place, region};

/// How much more a /48 of IPv6 may ask for than one /64 in it.
const REGION: u32 = 3;

/// A bucket: whose it is, how fast it fills, and how much it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    name: String,
    /// Microseconds until it has one more.
    step_us: u64,
    burst: u32,
}

impl Bucket {
    /// One that fills by so many a second.
    pub fn per_second(name: String, rate: u32, burst: u32) -> Self {
        Self::filled_in(name, 1_000_000, rate, burst)
    }

    /// One that fills by so many a minute.
    pub fn per_minute(name: String, rate: u32, burst: u32) -> Self {
        Self::filled_in(name, 60_000_000, rate, burst)
    }

    fn filled_in(name: String, us: u64, rate: u32, burst: u32) -> Self {
        Self { name, step_us: (us / u64::from(rate.max(1))).max(1), burst: burst.max(1) }
    }

    /// The buckets of a client address: its own, and for IPv6 a wider one of the /48, since whoever has one /64 often has many.
    pub fn of_address(policy: &str, address: IpAddr, rate: u32, burst: u32) -> Vec<Self> {
        let own = Self::per_second(format!("{policy}:{}", place(address)), rate, burst);
        let wider = region(address).map(|region| {
            let name = format!("{policy}:{region}/48");
            Self::per_second(name, rate.saturating_mul(REGION), burst.saturating_mul(REGION))
        });
        [own].into_iter().chain(wider).collect()
    }
}

/// What came of taking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Every bucket had one.
    Allowed {
        /// Requests that the last bucket has left at once.
        remaining: u32,
        /// Microseconds until the last bucket is full again.
        full_in_us: u64,
    },
    /// One had none, and nothing was taken from any.
    Refused {
        /// Its place among those that were to be taken from.
        by: usize,
        /// Microseconds until it has one.
        wait_us: u64,
    },
}

/// The buckets of this process and of all. Cheap to clone.
#[derive(Clone)]
pub struct RateLimits {
    shared: Option<Shared>,
    local: Arc<Local>,
}

impl RateLimits {
    /// In Redis, if there is one.
    pub fn new(redis: Option<&queue::Redis>) -> Self {
        metrics::counter!("rate_limits_unshared_total").increment(0);
        Self { shared: redis.map(Shared::connect), local: Arc::default() }
    }

    /// Takes one from each of these buckets, or nothing if one of them is empty.
    pub async fn take(&self, buckets: &[Bucket]) -> Taken {
        self.exchange(buckets, &[]).await
    }

    /// Gives back what was taken from these buckets.
    pub async fn give_back(&self, buckets: &[Bucket]) {
        self.exchange(&[], buckets).await;
    }

    /// Gives one back to each of the latter buckets and takes one from each of the former, in one round trip. A process keeps its own
    /// count as well: what that refuses costs Redis nothing, and when Redis does not answer nobody begins with a full bucket.
    pub async fn exchange(&self, take: &[Bucket], give_back: &[Bucket]) -> Taken {
        let here = self.local.exchange(take, give_back);
        let Some(shared) = &self.shared else { return here };
        if let Taken::Refused { .. } = here {
            if !give_back.is_empty() {
                shared.exchange(&[], give_back).await;
            }
            return here;
        }
        match shared.exchange(take, give_back).await {
            Some(Taken::Refused { by, wait_us }) => {
                self.local.exchange(&[], take);
                Taken::Refused { by, wait_us }
            }
            Some(allowed @ Taken::Allowed { .. }) => allowed,
            None => here,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ipv6_has_two_buckets() {
        let of = |address: &str| Bucket::of_address("p", address.parse().expect("an address"), 2, 10);
        assert_eq!(of("192.0.2.7"), [Bucket::per_second("p:192.0.2.7".to_owned(), 2, 10)]);
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
        let wide = Bucket::per_second("p:2001:db8:1::/48".to_owned(), 6, 30);
        assert_eq!(of("2001:db8:1:2::3"), [Bucket::per_second("p:2001:db8:1:2::".to_owned(), 2, 10), wide.clone()]);
        assert_eq!(of("2001:db8:1:9::3")[1], wide);
    }
}
