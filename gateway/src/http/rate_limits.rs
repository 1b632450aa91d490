//! Rate limits for unauthenticated traffic: browser requests and failed authentication attempts. Both are counted by
//! client address, attempts also by user name, since one key may be guessed from many addresses. The counts are shared
//! by all processes through Redis, if configured, and are otherwise per process.
//!
//! Only failures count. An attempt acquires its address's tokens before its form is read and that of its user name before
//! the account is looked up, so that attempts cost memory and Postgres a bounded amount however many arrive at once; the
//! tokens are refunded if the key is right. A key that was already accepted, from an address from which one was, acquires
//! none: it costs no round trip, and attackers cannot lock out the merchant. What one process has accepted the others learn
//! from Redis when they would refuse it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foundation::crypto::{Pepper, hex};
use foundation::network::{client_network, client_site};
use foundation::rate_limits::{Acquisition, Bucket, RateLimits as Buckets};

use super::form::Form;
use crate::failure::{Failure, Result};

/// Burst sizes in seconds of the rate.
const BROWSER_BURST_SECONDS: u32 = 10;
const FAILURE_BURST_SECONDS: u32 = 20;
/// Burst size in minutes of the rate.
const USER_FAILURE_BURST_MINUTES: u32 = 3;
/// Maximum number of accepted keys and their addresses in memory; the map is cleared when it is full.
const MAX_KNOWN: usize = 10_000;
/// How long they are known after their last use, to about `RENEWED_EVERY`.
const KNOWN_FOR: Duration = Duration::from_secs(24 * 3600);
const RENEWED_EVERY: Duration = Duration::from_secs(3600);
/// Questions per second to Redis, and their burst, about what a network has sent that one client may have as a whole, and
/// about all. Keys and addresses can be invented, so each has no limit of its own. The burst lets a merchant ask although
/// somebody guesses from the same network.
const QUESTIONS: (u32, u32) = (10, 100);
const ALL_QUESTIONS: (u32, u32) = (100, 1_000);

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
    known: Mutex<HashMap<[u8; 32], Known>>,
    /// How often Redis is queried for those that this process does not know.
    questions: Buckets,
}

/// A key or an address that is known.
#[derive(Clone, Copy)]
struct Known {
    until: Instant,
    /// From when on its next use is told to the other processes.
    renew_from: Instant,
}

impl Known {
    /// It was accepted just now, and the other processes can learn that if it `is_shared`.
    fn accepted(now: Instant, is_shared: bool) -> Self {
        Self { until: now + KNOWN_FOR, renew_from: if is_shared { now + RENEWED_EVERY } else { now } }
    }

    /// Another process has accepted it, up to `KNOWN_FOR` ago: without a use of its own, this one asks again.
    fn accepted_elsewhere(now: Instant) -> Self {
        Self { until: now + RENEWED_EVERY, renew_from: now }
    }
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
        let (buckets, questions) = (Buckets::new(redis, timeout), Buckets::new(None, timeout));
        Self { buckets, rates, pepper, known: Mutex::default(), questions }
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
        let (hash, mut needed) = (self.hash_of(address), Vec::new());
        if !self.is_known(&hash) {
            needed = self.address_buckets(address);
            if let Err(refused) = self.acquire(&needed).await {
                if !self.is_known_elsewhere(hash, address).await {
                    return Err(refused.failure);
                }
                needed.clear();
            }
        }
        Ok(Attempt { address, key: None, user: None, acquired: needed })
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
        if attempt.key.is_some_and(|key| self.is_known(&key)) {
            return Ok(attempt);
        }
        let mut needed = self.buckets_left(&attempt);
        if let Err(refused) = self.acquire(&needed).await {
            if let Some(key) = attempt.key
                && self.is_known_elsewhere(key, attempt.address).await
            {
                return Ok(attempt);
            }
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
            for hash in [key, self.hash_of(attempt.address)] {
                self.renew(hash).await;
            }
        }
        self.buckets.restore(&attempt.acquired).await;
    }

    /// Ends a failed attempt. If its key was known and is no longer valid, it has not acquired all tokens yet.
    pub(super) async fn record_failure(&self, attempt: Attempt) {
        let was_known = attempt.key.filter(|key| self.lock_known().remove(key).is_some());
        if let Some(key) = was_known {
            self.buckets.remove_mark(&mark(&key)).await;
            self.buckets.acquire(&self.buckets_left(&attempt)).await;
        }
    }

    fn is_known(&self, hash: &[u8; 32]) -> bool {
        self.lock_known().get(hash).is_some_and(|known| known.until > Instant::now())
    }

    /// Whether another process has accepted it.
    async fn is_known_elsewhere(&self, hash: [u8; 32], address: IpAddr) -> bool {
        let is_known = self.may_ask(address).await && self.buckets.is_marked(&mark(&hash)).await;
        if is_known {
            self.insert_known(hash, Known::accepted_elsewhere(Instant::now()));
        }
        is_known
    }

    async fn may_ask(&self, address: IpAddr) -> bool {
        let network = client_site(address).unwrap_or_else(|| client_network(address));
        let of_network = Bucket::per_second(network.to_string(), QUESTIONS.0, QUESTIONS.1);
        let of_all = Bucket::per_second("all".to_owned(), ALL_QUESTIONS.0, ALL_QUESTIONS.1);
        matches!(self.questions.acquire(&[of_network, of_all]).await, Acquisition::Allowed { .. })
    }

    /// Keeps a key or an address that was accepted known, to all processes.
    async fn renew(&self, hash: [u8; 32]) {
        let now = Instant::now();
        if self.lock_known().get(&hash).is_none_or(|known| known.renew_from <= now) {
            let is_shared = self.buckets.mark(&mark(&hash), KNOWN_FOR).await;
            self.insert_known(hash, Known::accepted(now, is_shared));
        }
    }

    fn insert_known(&self, hash: [u8; 32], new: Known) {
        let mut known = self.lock_known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(hash, new);
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

    fn lock_known(&self) -> MutexGuard<'_, HashMap<[u8; 32], Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the mark in Redis.
fn mark(hash: &[u8; 32]) -> String {
    format!("gateway-known:{}", hex(&hash[..16]))
}

/// The bucket that was empty.
struct LimitExceeded {
    by: usize,
    failure: Failure,
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::limits::refilled;

    fn limits() -> RateLimits {
        let rates = Rates { browsers: 1, failures: 1, user_failures: 1 };
        let pepper = Pepper::from_hex(&"00".repeat(32)).expect("a pepper");
        RateLimits::new(None, Duration::from_secs(1), rates, pepper)
    }

    /// How many questions are allowed, one from each of these addresses.
    async fn allowed(limits: &RateLimits, addresses: impl Iterator<Item = String>) -> usize {
        let mut allowed = 0;
        for address in addresses {
            allowed += usize::from(limits.may_ask(address.parse().expect("an address")).await);
        }
        allowed
    }

    #[tokio::test]
    async fn redis_is_asked_a_limited_number_of_questions_by_a_network_and_by_all() {
        let (limits, began) = (limits(), Instant::now());
        let of_each = |asked: usize| (100..=100 + 10 * refilled(began.elapsed())).contains(&asked);
        let asked = allowed(&limits, (0..1_000).map(|_| "192.0.2.7".to_owned())).await;
        assert!(of_each(asked), "one address: {asked}");
        let asked = allowed(&limits, (0..1_000).map(|subnet| format!("2001:db8:1:{subnet:x}::1"))).await;
        assert!(of_each(asked), "subnets of one customer: {asked}");
        let asked = allowed(&limits, (0..5_000).map(|site| format!("2001:db8:{:x}::1", site + 2))).await;
        assert!((700..=1_000 + 100 * refilled(began.elapsed())).contains(&asked), "many networks: {asked}");
    }

    #[test]
    fn what_another_process_has_accepted_is_not_known_for_a_whole_day_anew() {
        let now = Instant::now();
        let (own, learned) = (Known::accepted(now, true), Known::accepted_elsewhere(now));
        assert_eq!((own.until - now, learned.until - now), (KNOWN_FOR, RENEWED_EVERY));
        assert_eq!((own.renew_from - now, learned.renew_from - now), (RENEWED_EVERY, Duration::ZERO));
        assert_eq!(Known::accepted(now, false).renew_from, now, "it could not be told");
    }
}
