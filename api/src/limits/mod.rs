//! What is limited (docs/api.md, Rate limits): the requests of a key, those of a client address to what browsers use, and those of
//! an address whose key is not known to be good. `common::rate_limits` keeps the buckets.
//!
//! A budget that several people share is never spent by a request that is refused: the bucket of a publishable key is that of all
//! visitors of a shop, so it is taken from after everything that can be checked without it, in the same step as the address's
//! share of it, and gets back what a refused request has taken.
//!
//! A secret key that this process has seen to be good passes without its address being counted: its requests cost one round trip
//! to Redis, for the key's own bucket. Any other key is counted by its address before it is looked up, so that guessing costs
//! Postgres a bounded amount; a key that turns out to be good gives that back in the round trip that takes from its own bucket.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use common::accounts::{Caller, Rate};
use common::config::ApiLimits;
use common::rate_limits::{Bucket, RateLimits, Taken};

/// How many seconds' worth of requests an address may make at once.
const PAGES_BURST: u32 = 5;
const UNKNOWN_BURST: u32 = 4;

/// The limits of this process and of all. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Limits {
    buckets: RateLimits,
    set: ApiLimits,
}

/// What a bucket said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whose bucket it is.
    policy: Policy,
    rate: Rate,
    allowed: bool,
    /// Requests left at once.
    remaining: u32,
    /// Microseconds until another request is allowed, or until the bucket is full.
    reset_us: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// The requests of a key.
    Key,
    /// The requests of a client address.
    Address,
}

impl Policy {
    const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Address => "address",
        }
    }
}

impl Limits {
    pub(crate) fn new(redis: &queue::Redis, set: ApiLimits) -> Self {
        Self { buckets: RateLimits::new(Some(redis)), set }
    }

    /// Takes one request of a secret key, and gives back what its address was charged before the key was known.
    pub(crate) async fn take_key(&self, caller: &Caller, charged: Option<IpAddr>) -> Verdict {
        let charged = charged.map(|address| self.unknown_of(address)).unwrap_or_default();
        verdict(Policy::Key, caller.rate, self.buckets.exchange(&[key_of(caller)], &charged).await)
    }

    /// Takes one request to a payment page, or to a route for browsers before its key is looked up.
    pub(crate) async fn take_page(&self, address: IpAddr) -> Verdict {
        let rate = Rate { per_second: self.set.page, burst: self.set.page.saturating_mul(PAGES_BURST) };
        let buckets = Bucket::of_address("page", address, rate.per_second, rate.burst);
        verdict(Policy::Address, rate, self.buckets.take(&buckets).await)
    }

    /// Takes one request of a publishable key, from the key's bucket and from the share of it that an address has.
    pub(crate) async fn take_visitor(&self, caller: &Caller, address: IpAddr) -> Verdict {
        let part = |whole: u32| (u64::from(whole) * u64::from(self.set.key_share) / 100).max(1);
        let part = |whole| u32::try_from(part(whole)).unwrap_or(u32::MAX);
        let share = Rate { per_second: part(caller.rate.per_second), burst: part(caller.rate.burst) };
        let name = format!("visitor:{}", caller.key_id);
        let mut buckets = Bucket::of_address(&name, address, share.per_second, share.burst);
        buckets.push(key_of(caller));
        let taken = self.buckets.take(&buckets).await;
        match taken {
            Taken::Refused { by, .. } if by + 1 < buckets.len() => verdict(Policy::Address, share, taken),
            Taken::Refused { .. } | Taken::Allowed { .. } => verdict(Policy::Key, caller.rate, taken),
        }
    }

    /// Gives a publishable key back what a refused request has taken from it. The address is charged all the same.
    pub(crate) async fn give_back(&self, caller: &Caller) {
        self.buckets.give_back(&[key_of(caller)]).await;
    }

    /// Takes one request whose key is missing, wrong, or not known to be good.
    pub(crate) async fn take_unknown(&self, address: IpAddr) -> Verdict {
        verdict(Policy::Address, self.unknown_rate(), self.buckets.take(&self.unknown_of(address)).await)
    }

    /// Gives an address back what it was charged for a key that nothing was found out about.
    pub(crate) async fn give_back_unknown(&self, address: IpAddr) {
        self.buckets.give_back(&self.unknown_of(address)).await;
    }

    const fn unknown_rate(&self) -> Rate {
        Rate { per_second: self.set.unknown, burst: self.set.unknown.saturating_mul(UNKNOWN_BURST) }
    }

    fn unknown_of(&self, address: IpAddr) -> Vec<Bucket> {
        let Rate { per_second, burst } = self.unknown_rate();
        Bucket::of_address("unknown", address, per_second, burst)
    }
}

fn key_of(caller: &Caller) -> Bucket {
    Bucket::per_second(caller.key_id.to_string(), caller.rate.per_second, caller.rate.burst)
}

fn verdict(policy: Policy, rate: Rate, taken: Taken) -> Verdict {
    match taken {
        Taken::Allowed { remaining, full_in_us } => {
            Verdict { policy, rate, allowed: true, remaining, reset_us: full_in_us }
        }
        Taken::Refused { wait_us, .. } => Verdict { policy, rate, allowed: false, remaining: 0, reset_us: wait_us },
    }
}

impl Verdict {
    /// Whether the request may go on.
    pub(crate) fn allowed(self) -> bool {
        self.allowed
    }

    /// The fields `RateLimit-Policy` and `RateLimit` of the IETF, and `Retry-After` for who must wait.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        let Rate { per_second, burst } = self.rate;
        let (window, reset) = (burst.div_ceil(per_second).max(1), self.reset_us.div_ceil(1_000_000));
        let mut set = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        let policy = self.policy.name();
        set("ratelimit-policy", format!("\"{policy}\";q={burst};w={window}"));
        set("ratelimit", format!("\"{policy}\";r={};t={reset}", self.remaining));
        if !self.allowed {
            set("retry-after", reset.max(1).to_string());
        }
    }
}
