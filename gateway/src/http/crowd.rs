//! Who comes without an account, counted by address.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// Addresses remembered at most; beyond, those that have not come for a while are forgotten.
const MAX_ADDRESSES: usize = 10_000;
/// What a provider gives to one customer at least: whoever has one address of IPv6 has all that begin with these bits.
const NETWORK: u128 = !0 << 64;

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

/// Whoever is counted together with this address.
fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_place() {
        for (address, counted) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
            ("::1", "::"),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(place(address).to_string(), counted);
        }
    }
}
