//! Who comes without an account, counted by address.

use std::net::IpAddr;
use std::num::NonZeroU32;

use common::network::place;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// Addresses remembered at most; beyond, those that have not come for a while are forgotten.
const MAX_ADDRESSES: usize = 10_000;

/// Everybody without an account, by address.
pub struct Crowd(DefaultKeyedRateLimiter<IpAddr>);

impl Crowd {
    /// So many requests a second of each address, and ten times as many at once.
    pub fn new(per_second: u32) -> Self {
        let of = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self(RateLimiter::keyed(Quota::per_second(of(per_second)).allow_burst(of(per_second.saturating_mul(10)))))
    }

    /// Whether one more request from there is not too many.
    pub fn allows(&self, address: IpAddr) -> bool {
        if self.0.len() > MAX_ADDRESSES {
            self.0.retain_recent();
        }
        self.0.check_key(&place(address)).is_ok()
    }
}
