//! Rate limits for unauthenticated traffic: browser requests and failed authentication attempts. Both are counted by
//! client address, attempts also by user name, since one key may be guessed from many addresses. The counts are shared
//! by all processes through Redis, if configured, and are otherwise per process.
//!
//! Only failures count. An attempt acquires its tokens before the account is looked up, so that guesses cost Postgres a
//! bounded amount however many arrive at once; the tokens are refunded if the key is right. A key that this process has
//! already accepted acquires none: it costs no round trip, and attackers cannot lock out the merchant.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foundation::crypto::{Pepper, hex};
use foundation::network::client_network;
use foundation::rate_limits::{Acquisition, Bucket, RateLimits as Buckets};

use super::form::Form;
use crate::failure::{Failure, Result};

/// Burst sizes in seconds of the rate.
const BROWSER_BURST_SECONDS: u32 = 10;
const FAILURE_BURST_SECONDS: u32 = 20;
/// Burst size in minutes of the rate.
const USER_FAILURE_BURST_MINUTES: u32 = 3;
/// Maximum number of accepted keys in memory; the set is cleared when it is full.
const MAX_KNOWN_KEYS: usize = 10_000;

/// The configured rates.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `GATEWAY_PUBLIC_RATE`: browser requests per second from one address.
    pub browsers: u32,
    /// `GATEWAY_FAILURE_RATE`: failed attempts per second from one address.
    pub failures: u32,
    /// `GATEWAY_USER_FAILURE_RATE`: failed attempts per minute for one user name.
    pub user_failures: u32,
}

/// The rate limits of this process.
pub struct RateLimits {
    buckets: Buckets,
    rates: Rates,
    pepper: Pepper,
    /// Hashes of user names with keys that were accepted when last used.
    known_keys: Mutex<HashSet<[u8; 32]>>,
}

/// An authentication attempt in progress.
pub(super) struct Attempt {
    key: Option<[u8; 32]>,
    address: IpAddr,
    /// The hashed user name, if a key was sent with it.
    user: Option<String>,
    /// The tokens it acquired; empty for a known key.
    acquired: Vec<Bucket>,
}

impl RateLimits {
    /// `redis` shares the counts among processes, if it responds within `timeout`.
    pub fn new(redis: Option<&queue::Redis>, timeout: Duration, rates: Rates, pepper: Pepper) -> Self {
        Self { buckets: Buckets::new(redis, timeout), rates, pepper, known_keys: Mutex::default() }
    }

    /// Acquires a token for a browser request.
    ///
    /// # Errors
    /// [`Failure::TooMany`].
    pub(crate) async fn check_browser(&self, address: IpAddr) -> Result<()> {
        let rate = self.rates.browsers;
        let buckets = Bucket::of_address("gateway-browser", address, rate, rate.saturating_mul(BROWSER_BURST_SECONDS));
        self.acquire(&buckets).await.map_err(|refused| refused.failure)
    }

    /// Begins an authentication attempt.
    ///
    /// # Errors
    /// [`Failure::TooMany`] after too many failures from this address, or for this user name with a recent failure from
    /// this address.
    pub(super) async fn begin_attempt(&self, address: IpAddr, form: &Form) -> Result<Attempt> {
        // Only hashes are kept: the input may be a secret.
        let credentials = form.get("username").zip(form.get("api_key"));
        let key = credentials.map(|(username, key)| self.pepper.hash(&format!("known:{username}\0{key}")));
        let user = credentials.map(|(username, _)| hex(&self.pepper.hash(&format!("user:{username}"))[..16]));
        let mut attempt = Attempt { key, address, user, acquired: Vec::new() };
        if key.is_some_and(|key| self.lock_known_keys().contains(&key)) {
            return Ok(attempt);
        }
        let mut needed = self.address_buckets(address);
        let address_bucket_count = needed.len();
        needed.extend(attempt.user.as_ref().map(|user| self.user_bucket(user)));
        if let Err(refused) = self.acquire(&needed).await {
            let Some(user) = attempt.user.as_ref().filter(|_| refused.by == address_bucket_count) else {
                return Err(refused.failure);
            };
            // The user name's limit is exhausted, probably by guessing. Its merchant may come from this address, so
            // each address still has one attempt a minute.
            needed.truncate(address_bucket_count);
            needed.push(Bucket::per_minute(format!("gateway-user:{user}:{}", client_network(address)), 1, 1));
            self.acquire(&needed).await.map_err(|refused| refused.failure)?;
        }
        attempt.acquired = needed;
        Ok(attempt)
    }

    /// Ends an attempt that succeeded or had no result, and refunds its tokens.
    pub(super) async fn release(&self, attempt: Attempt, was_right: bool) {
        if let (Some(key), true) = (attempt.key, was_right) {
            let mut known_keys = self.lock_known_keys();
            if known_keys.len() >= MAX_KNOWN_KEYS {
                known_keys.clear();
            }
            known_keys.insert(key);
        }
        if !attempt.acquired.is_empty() {
            self.buckets.restore(&attempt.acquired).await;
        }
    }

    /// Ends a failed attempt. If its key was known and is no longer valid, it has acquired no tokens yet.
    pub(super) async fn record_failure(&self, attempt: Attempt) {
        if attempt.key.is_some_and(|key| self.lock_known_keys().remove(&key)) {
            let mut buckets = self.address_buckets(attempt.address);
            buckets.extend(attempt.user.as_ref().map(|user| self.user_bucket(user)));
            self.buckets.acquire(&buckets).await;
        }
    }

    fn address_buckets(&self, address: IpAddr) -> Vec<Bucket> {
        let rate = self.rates.failures;
        Bucket::of_address("gateway-failures", address, rate, rate.saturating_mul(FAILURE_BURST_SECONDS))
    }

    fn user_bucket(&self, user: &str) -> Bucket {
        let rate = self.rates.user_failures;
        Bucket::per_minute(format!("gateway-user:{user}"), rate, rate.saturating_mul(USER_FAILURE_BURST_MINUTES))
    }

    async fn acquire(&self, buckets: &[Bucket]) -> Result<(), LimitExceeded> {
        match self.buckets.acquire(buckets).await {
            Acquisition::Allowed { .. } => Ok(()),
            Acquisition::Refused { by, wait_us } => {
                Err(LimitExceeded { by, failure: Failure::TooMany { seconds: wait_us.div_ceil(1_000_000).max(1) } })
            }
        }
    }

    fn lock_known_keys(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.known_keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bucket that was empty.
struct LimitExceeded {
    by: usize,
    failure: Failure,
}
