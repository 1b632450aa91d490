//! Rate limits for unauthenticated traffic: browser requests and failed authentication attempts. Both are counted by
//! client address, attempts also by user name, since one key may be guessed from many addresses. The counts are shared
//! by all processes through Redis, if configured, and are otherwise per process.
//!
//! Only failures count. An attempt acquires its address's tokens before its form is read and that of its user name before
//! the account is looked up, so that attempts cost memory and Postgres a bounded amount however many arrive at once; the
//! tokens are refunded if the key is right. A key that this process has already accepted, from an address from which it
//! has accepted one, acquires none: it costs no round trip, and attackers cannot lock out the merchant.

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
/// Maximum number of accepted keys and their addresses in memory; the set is cleared when it is full.
const MAX_KNOWN: usize = 10_000;

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
    /// Hashes of user names with keys that were accepted when last used, and of the addresses that sent accepted keys.
    known: Mutex<HashSet<[u8; 32]>>,
}

/// An authentication attempt in progress.
pub(super) struct Attempt {
    address: IpAddr,
    key: Option<[u8; 32]>,
    /// The hashed user name, if a key was sent with it.
    user: Option<String>,
    /// The tokens it acquired; none for a known key from a known address.
    acquired: Vec<Bucket>,
}

impl RateLimits {
    /// `redis` shares the counts among processes, if it responds within `timeout`.
    pub fn new(redis: Option<&queue::Redis>, timeout: Duration, rates: Rates, pepper: Pepper) -> Self {
        Self { buckets: Buckets::new(redis, timeout), rates, pepper, known: Mutex::default() }
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

    /// Begins an authentication attempt, before its form is read.
    ///
    /// # Errors
    /// [`Failure::TooMany`] after too many failures from this address, unless a key was accepted from it.
    pub(super) async fn begin_attempt(&self, address: IpAddr) -> Result<Attempt> {
        let mut attempt = Attempt { address, key: None, user: None, acquired: Vec::new() };
        if !self.lock_known().contains(&self.hash_of(address)) {
            attempt.acquired = self.address_buckets(address);
            self.acquire(&attempt.acquired).await.map_err(|refused| refused.failure)?;
        }
        Ok(attempt)
    }

    /// Continues an attempt with the key that its form has.
    ///
    /// # Errors
    /// [`Failure::TooMany`] after too many failures from this address, or for this user name with a recent failure from
    /// this address. The tokens that the attempt had before are spent: its form was read.
    pub(super) async fn identify(&self, mut attempt: Attempt, form: &Form) -> Result<Attempt> {
        // Only hashes are kept: the input may be a secret.
        let credentials = form.get("username").zip(form.get("api_key"));
        attempt.key = credentials.map(|(username, key)| self.pepper.hash(&format!("known:{username}\0{key}")));
        attempt.user = credentials.map(|(username, _)| hex(&self.pepper.hash(&format!("user:{username}"))[..16]));
        if attempt.key.is_some_and(|key| self.lock_known().contains(&key)) {
            return Ok(attempt);
        }
        let mut needed = self.buckets_left(&attempt);
        if let Err(refused) = self.acquire(&needed).await {
            let Some(user) = attempt.user.as_ref().filter(|_| refused.by + 1 == needed.len()) else {
                return Err(refused.failure);
            };
            // The user name's limit is exhausted, probably by guessing. Its merchant may come from this address, so
            // each address still has one attempt a minute.
            needed.pop();
            needed.push(Bucket::per_minute(format!("gateway-user:{user}:{}", client_network(attempt.address)), 1, 1));
            self.acquire(&needed).await.map_err(|refused| refused.failure)?;
        }
        attempt.acquired.append(&mut needed);
        Ok(attempt)
    }

    /// Ends an attempt that succeeded or had no result, and refunds its tokens.
    pub(super) async fn release(&self, attempt: Attempt, was_right: bool) {
        if let (Some(key), true) = (attempt.key, was_right) {
            let mut known = self.lock_known();
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.extend([key, self.hash_of(attempt.address)]);
        }
        self.buckets.restore(&attempt.acquired).await;
    }

    /// Ends a failed attempt. If its key was known and is no longer valid, it has not acquired all tokens yet.
    pub(super) async fn record_failure(&self, attempt: Attempt) {
        if attempt.key.is_some_and(|key| self.lock_known().remove(&key)) {
            self.buckets.acquire(&self.buckets_left(&attempt)).await;
        }
    }

    /// The buckets of which a failed attempt must have a token and has none yet; that of the user name is the last.
    fn buckets_left(&self, attempt: &Attempt) -> Vec<Bucket> {
        let is_charged = !attempt.acquired.is_empty();
        let of_address = if is_charged { Vec::new() } else { self.address_buckets(attempt.address) };
        of_address.into_iter().chain(attempt.user.as_ref().map(|user| self.user_bucket(user))).collect()
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

    fn hash_of(&self, address: IpAddr) -> [u8; 32] {
        self.pepper.hash(&format!("address:{}", client_network(address)))
    }

    fn lock_known(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bucket that was empty.
struct LimitExceeded {
    by: usize,
    failure: Failure,
}
