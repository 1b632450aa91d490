//! Rate limits (docs/api.md, Rate limits): requests per key, requests per client address to pages and browser routes,
//! documents per page, and requests per address whose key is not known to be valid. `foundation::rate_limits` stores the
//! buckets.
//!
//! All visitors of a shop share the bucket of its publishable key, so rejected requests must not use it up: it is
//! charged after every check that does not need it, in one step with the address's share of it, and gets its token back
//! if the handler rejects the request or does not try it (503).
//!
//! A secret key that this process has already accepted is not counted by address: its requests cost one round trip to
//! Redis, for the key's own bucket. Any other key is charged to its address before the lookup, which bounds the load
//! that guessing puts on Postgres. A key that proves valid gets that token back in the round trip that charges its own
//! bucket.

use std::net::IpAddr;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use domain::accounts::{Caller, Rate};
use foundation::config::ApiLimits;
use foundation::crypto::{hex, sha256};
use foundation::id::{AccountId, OperationId};
use foundation::rate_limits::{Acquisition, Bucket, RateLimits};

/// Bursts per address, in seconds of its rate.
const PAGES_BURST: u32 = 5;
const UNVERIFIED_BURST: u32 = 4;
/// Events of an account's provider, which repeats those that are refused.
const EVENTS: Rate = Rate { per_second: 100, burst: 1000 };
/// Documents of a page, each of which takes a processor for a while. A payer needs an invoice and a receipt.
const DOCUMENTS: Rate = Rate { per_second: 1, burst: 10 };
/// Browsers that may wait for one operation at once.
const RETURNS_BURST: u32 = 3;

/// The rate limiter. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Limits {
    buckets: RateLimits,
    config: ApiLimits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimitDecision {
    policy: Policy,
    rate: Rate,
    pub(crate) allowed: bool,
    /// Tokens left in the bucket.
    remaining: u32,
    /// Microseconds until a rejected request may be retried, or until the bucket of an allowed one is full.
    reset_us: u64,
}

/// What a bucket counts requests by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Key,
    Address,
    Page,
}

impl Policy {
    const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Address => "address",
            Self::Page => "page",
        }
    }
}

impl Limits {
    pub(crate) fn new(redis: &queue::Redis, timeout: Duration, config: ApiLimits) -> Self {
        Self { buckets: RateLimits::new(Some(redis), timeout), config }
    }

    /// Acquires a token for a secret key, and refunds the one that its address was charged before the key was verified.
    pub(crate) async fn acquire_key(&self, caller: &Caller, charged: Option<IpAddr>) -> RateLimitDecision {
        let charged = charged.map(|address| self.unverified_of(address)).unwrap_or_default();
        decision(Policy::Key, caller.rate, self.buckets.restore_and_acquire(&[key_of(caller)], &charged).await)
    }

    /// Acquires a token for a payment page, or for a browser route before its key is looked up.
    pub(crate) async fn acquire_page(&self, address: IpAddr) -> RateLimitDecision {
        self.acquire_at_page_rate("page", address).await
    }

    /// Acquires a token for a logo. E-mails show them too, which must use up nothing of what pages need.
    pub(crate) async fn acquire_logo(&self, address: IpAddr) -> RateLimitDecision {
        self.acquire_at_page_rate("logo", address).await
    }

    async fn acquire_at_page_rate(&self, name: &str, address: IpAddr) -> RateLimitDecision {
        let rate = Rate { per_second: self.config.page, burst: self.config.page.saturating_mul(PAGES_BURST) };
        let buckets = Bucket::of_address(name, address, rate.per_second, rate.burst);
        decision(Policy::Address, rate, self.buckets.acquire(&buckets).await)
    }

    /// Acquires a token for a publishable key, from the key's bucket and from the address's share of it.
    pub(crate) async fn acquire_visitor(&self, caller: &Caller, address: IpAddr) -> RateLimitDecision {
        let part = |whole: u32| (u64::from(whole) * u64::from(self.config.key_share) / 100).max(1);
        let part = |whole| u32::try_from(part(whole)).unwrap_or(u32::MAX);
        let share = Rate { per_second: part(caller.rate.per_second), burst: part(caller.rate.burst) };
        let name = format!("visitor:{}", caller.key_id);
        let mut buckets = Bucket::of_address(&name, address, share.per_second, share.burst);
        buckets.push(key_of(caller));
        let acquisition = self.buckets.acquire(&buckets).await;
        match acquisition {
            Acquisition::Refused { by, .. } if by + 1 < buckets.len() => decision(Policy::Address, share, acquisition),
            Acquisition::Refused { .. } | Acquisition::Allowed { .. } => {
                decision(Policy::Key, caller.rate, acquisition)
            }
        }
    }

    /// Refunds the token of a publishable key after a rejected request, or one that was not tried. The address's token is not refunded.
    pub(crate) async fn refund_key(&self, caller: &Caller) {
        self.buckets.restore(&[key_of(caller)]).await;
    }

    /// Acquires a token of the address for a request whose key is missing, invalid or not verified yet.
    pub(crate) async fn acquire_unverified(&self, address: IpAddr) -> RateLimitDecision {
        decision(Policy::Address, self.unverified_rate(), self.buckets.acquire(&self.unverified_of(address)).await)
    }

    /// Refunds the address's token for a key that could not be checked.
    pub(crate) async fn refund_unverified(&self, address: IpAddr) {
        self.buckets.restore(&self.unverified_of(address)).await;
    }

    /// Acquires a token for a verified event of an account's provider.
    pub(crate) async fn acquire_event(&self, account: AccountId) -> RateLimitDecision {
        let bucket = Bucket::per_second(format!("events:{account}"), EVENTS.per_second, EVENTS.burst);
        decision(Policy::Key, EVENTS, self.buckets.acquire(&[bucket]).await)
    }

    /// Acquires a token for a document of the page with this token.
    pub(crate) async fn acquire_document(&self, page: &str) -> RateLimitDecision {
        decision(Policy::Page, DOCUMENTS, self.buckets.acquire(&[document_of(page)]).await)
    }

    /// Refunds the token for a document that could not be written at the time.
    pub(crate) async fn refund_document(&self, page: &str) {
        self.buckets.restore(&[document_of(page)]).await;
    }

    /// Whether a browser that returns from a challenge may wait for this operation's outcome. Anyone with the URL can
    /// return, any number of times at once.
    pub(crate) async fn may_wait_for(&self, operation: OperationId) -> bool {
        let bucket = Bucket::per_second(format!("wait:{operation}"), 1, RETURNS_BURST);
        matches!(self.buckets.acquire(&[bucket]).await, Acquisition::Allowed { .. })
    }

    /// Whether a worker may be woken for this operation, which queries the provider: once a second, however many wait.
    pub(crate) async fn may_wake(&self, operation: OperationId) -> bool {
        let bucket = Bucket::per_second(format!("wake:{operation}"), 1, 1);
        matches!(self.buckets.acquire(&[bucket]).await, Acquisition::Allowed { .. })
    }

    const fn unverified_rate(&self) -> Rate {
        Rate { per_second: self.config.unknown, burst: self.config.unknown.saturating_mul(UNVERIFIED_BURST) }
    }

    fn unverified_of(&self, address: IpAddr) -> Vec<Bucket> {
        let Rate { per_second, burst } = self.unverified_rate();
        Bucket::of_address("unknown", address, per_second, burst)
    }
}

fn key_of(caller: &Caller) -> Bucket {
    Bucket::per_second(caller.key_id.to_string(), caller.rate.per_second, caller.rate.burst)
}

/// Redis gets a hash of the page's token only.
fn document_of(page: &str) -> Bucket {
    let name = format!("document:{}", hex(&sha256(page.as_bytes())));
    Bucket::per_second(name, DOCUMENTS.per_second, DOCUMENTS.burst)
}

fn decision(policy: Policy, rate: Rate, acquisition: Acquisition) -> RateLimitDecision {
    match acquisition {
        Acquisition::Allowed { remaining, full_in_us } => {
            RateLimitDecision { policy, rate, allowed: true, remaining, reset_us: full_in_us }
        }
        Acquisition::Refused { wait_us, .. } => {
            RateLimitDecision { policy, rate, allowed: false, remaining: 0, reset_us: wait_us }
        }
    }
}

impl RateLimitDecision {
    /// Adds `RateLimit-Policy` and `RateLimit` (IETF draft-ietf-httpapi-ratelimit-headers), and `Retry-After` if
    /// rejected.
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
