//! Whom a request comes from, and whom an address stands for, where strangers are counted.

mod proxies;

use std::net::{IpAddr, Ipv6Addr};

pub use self::proxies::{Network, Proxies};

/// What a provider gives to one customer at least: whoever has one address of IPv6 has all that begin with these bits.
const NETWORK: u128 = !0 << 64;
/// What a provider gives to a customer who asks for more: 65,536 of these networks.
const REGION: u128 = !0 << 80;

/// Whoever is counted together with this address.
pub fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
    }
}

/// The /48 that an address of IPv6 lies in; none for one of IPv4.
pub fn region(address: IpAddr) -> Option<IpAddr> {
    match address.to_canonical() {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(Ipv6Addr::from_bits(address.to_bits() & REGION).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::check;

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

    #[test]
    fn a_place_is_its_own_place() {
        check(any::<IpAddr>(), |address| assert_eq!(place(place(address)), place(address)));
    }
}
