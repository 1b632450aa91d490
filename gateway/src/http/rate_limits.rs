//! Limits to what comes without an account: requests of browsers, and attempts to be let in as a merchant that fail. Both are
//! counted by client address, attempts by user name too, since one key may be guessed from many addresses. In Redis, if there is
//! one, for all processes together; otherwise in each process.
//!
//! Only failures count. An attempt whose key this process has not seen to be good takes its place before the account is looked
//! up, so that guesses cost Postgres a bounded amount however many come at once, and gives it back if the key is right. A key
//! that was seen to be good takes none: it costs no round trip, and nobody shuts its merchant out.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::crypto::{Pepper, hex};
use common::network::place;
use common::rate_limits::{Bucket, RateLimits as Buckets, Taken};

use super::Form;
use crate::failure::{Failure, Result};

/// How many seconds' worth a browser may ask for at once, and how many seconds' worth of attempts may fail at once.
const BROWSERS_BURST: u32 = 10;
const FAILURES_BURST: u32 = 20;
/// How many minutes' worth of attempts at one user name may fail at once.
const USER_FAILURES_BURST: u32 = 3;
/// Good keys remembered at most; at that many the memory is begun anew.
const MOST_KEYS: usize = 10_000;

/// What the environment sets.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `GATEWAY_PUBLIC_RATE`: requests a second of one address to what browsers use.
    pub browsers: u32,
    /// `GATEWAY_FAILURE_RATE`: failed attempts a second of one address.
    pub failures: u32,
    /// `GATEWAY_USER_FAILURE_RATE`: failed attempts a minute at one user name.
    pub user_failures: u32,
}

/// The limits of a process.
pub struct RateLimits {
    buckets: Buckets,
    set: Rates,
    pepper: Pepper,
    /// Hashes of user names and keys that were right when they were last used.
    known: Mutex<HashSet<[u8; 32]>>,
}

/// An attempt under way.
pub(super) struct Attempt {
    key: Option<[u8; 32]>,
    address: IpAddr,
    /// The name whose key is tried, hashed; none if no key is.
    user: Option<String>,
    /// What it has taken; nothing if its key is known.
    taken: Vec<Bucket>,
}

impl RateLimits {
    /// In this Redis, if there is one.
    pub fn new(redis: Option<&queue::Redis>, set: Rates, pepper: Pepper) -> Self {
        Self { buckets: Buckets::new(redis), set, pepper, known: Mutex::default() }
    }

    /// Takes one request of a browser.
    ///
    /// # Errors
    /// [`Failure::TooMany`].
    pub(crate) async fn browser(&self, address: IpAddr) -> Result<()> {
        let rate = self.set.browsers;
        let buckets = Bucket::of_address("gateway-browser", address, rate, rate.saturating_mul(BROWSERS_BURST));
        self.take(&buckets).await.map_err(|refused| refused.failure)
    }

    /// Begins an attempt to be let in.
    ///
    /// # Errors
    /// [`Failure::TooMany`] if too many have failed from this address, or at this user name and one of them lately from here.
    pub(super) async fn attempt(&self, address: IpAddr, form: &Form) -> Result<Attempt> {
        // Their hashes: what somebody sends is kept nowhere in clear.
        let tried = form.get("username").zip(form.get("api_key"));
        let key = tried.map(|(username, key)| self.pepper.hash(&format!("known:{username}\0{key}")));
        let user = tried.map(|(username, _)| hex(&self.pepper.hash(&format!("user:{username}"))[..16]));
        let mut attempt = Attempt { key, address, user, taken: Vec::new() };
        if key.is_some_and(|key| self.keys().contains(&key)) {
            return Ok(attempt);
        }
        let mut wanted = self.of_address(address);
        let by_address = wanted.len();
        wanted.extend(attempt.user.as_ref().map(|user| self.of_user(user)));
        if let Err(refused) = self.take(&wanted).await {
            let Some(user) = attempt.user.as_ref().filter(|_| refused.by == by_address) else {
                return Err(refused.failure);
            };
            // Somebody guesses this name's key. Its merchant may come from this address, which has one attempt a minute.
            wanted.truncate(by_address);
            wanted.push(Bucket::per_minute(format!("gateway-user:{user}:{}", place(address)), 1, 1));
            self.take(&wanted).await.map_err(|refused| refused.failure)?;
        }
        attempt.taken = wanted;
        Ok(attempt)
    }

    /// Ends an attempt that was right, or of which nothing was found out.
    pub(super) async fn forgive(&self, attempt: Attempt, was_right: bool) {
        if let (Some(key), true) = (attempt.key, was_right) {
            let mut known = self.keys();
            if known.len() >= MOST_KEYS {
                known.clear();
            }
            known.insert(key);
        }
        if !attempt.taken.is_empty() {
            self.buckets.give_back(&attempt.taken).await;
        }
    }

    /// Ends an attempt that was wrong. One whose key was known, and is no longer right, has taken nothing yet.
    pub(super) async fn fail(&self, attempt: Attempt) {
        if attempt.key.is_some_and(|key| self.keys().remove(&key)) {
            let mut buckets = self.of_address(attempt.address);
            buckets.extend(attempt.user.as_ref().map(|user| self.of_user(user)));
            self.buckets.take(&buckets).await;
        }
    }

    fn of_address(&self, address: IpAddr) -> Vec<Bucket> {
        let rate = self.set.failures;
        Bucket::of_address("gateway-failures", address, rate, rate.saturating_mul(FAILURES_BURST))
    }

    fn of_user(&self, user: &str) -> Bucket {
        let rate = self.set.user_failures;
        Bucket::per_minute(format!("gateway-user:{user}"), rate, rate.saturating_mul(USER_FAILURES_BURST))
    }

    async fn take(&self, buckets: &[Bucket]) -> Result<(), Refused> {
        match self.buckets.take(buckets).await {
            Taken::Allowed { .. } => Ok(()),
            Taken::Refused { by, wait_us } => {
                Err(Refused { by, failure: Failure::TooMany { seconds: wait_us.div_ceil(1_000_000).max(1) } })
            }
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which bucket had nothing left.
struct Refused {
    by: usize,
    failure: Failure,
}
