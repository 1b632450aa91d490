//! Rate limits: one bucket per key across all API processes, kept in Redis by its own clock; while Redis is away, one per
//! process. Traffic without a valid key is counted by address, per process (docs/api.md, Rate limits).

mod local;
mod shared;

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use common::accounts::{Caller, Rate};
use common::network::place;

use local::Local;
use shared::Shared;

/// Requests per second, and at once, of one address without a valid key.
const STRANGERS: Rate = Rate { per_second: 50, burst: 200 };
/// How many seconds' worth of requests to payment pages, and with publishable keys, an address may make at once.
const PAYERS_BURST: u32 = 5;

/// The limits of this process and of all. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Limits {
    shared: Shared,
    local: Arc<Local<uuid::Uuid>>,
    strangers: Arc<Local<IpAddr>>,
    payers: Arc<Local<IpAddr>>,
    of_payers: Rate,
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
    /// Milliseconds until another request is allowed, or until the bucket is full.
    reset_ms: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// The requests of a key.
    Key,
    /// The requests of an address that came without a valid key.
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
    /// Payment pages take so many requests a second from one address, and so do the routes for browsers.
    pub(crate) fn new(redis: &queue::Redis, payers_per_second: u32) -> Self {
        Self {
            shared: Shared::connect(redis),
            local: Arc::default(),
            strangers: Arc::default(),
            payers: Arc::default(),
            of_payers: Rate { per_second: payers_per_second, burst: payers_per_second.saturating_mul(PAYERS_BURST) },
        }
    }

    /// Takes one request of a key.
    pub(crate) async fn take(&self, caller: &Caller) -> Verdict {
        let (key, rate) = (caller.key_id.uuid(), caller.rate);
        match self.shared.take(&caller.key_id.to_string(), rate).await {
            Some(verdict) => verdict,
            None => self.local.take(key, rate, Policy::Key),
        }
    }

    /// Takes one request that had no valid key.
    pub(crate) fn take_stranger(&self, address: IpAddr) -> Verdict {
        self.strangers.take(place(address), STRANGERS, Policy::Address)
    }

    /// Takes one request to a payment page, or with a publishable key.
    pub(crate) fn take_payer(&self, address: IpAddr) -> Verdict {
        self.payers.take(place(address), self.of_payers, Policy::Address)
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
        let (window, reset) = (burst.div_ceil(per_second).max(1), self.reset_ms.div_ceil(1000));
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
