//! The client address of a request, and the networks by which unauthenticated clients are rate limited.

mod proxies;

use std::net::{IpAddr, Ipv6Addr};

pub use self::proxies::{Network, Proxies};

/// An IPv6 client controls at least a /64.
const SUBNET_MASK: u128 = !0 << 64;
/// Providers assign up to a /48 to one customer: 65,536 subnets.
const SITE_MASK: u128 = !0 << 80;

/// The IPv4 address, or the /64 of an IPv6 address.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & SUBNET_MASK).into(),
    }
}

/// The /48 of an IPv6 address; `None` for IPv4.
pub fn client_site(address: IpAddr) -> Option<IpAddr> {
    match address.to_canonical() {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(Ipv6Addr::from_bits(address.to_bits() & SITE_MASK).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::check;

    #[test]
    fn addresses_map_to_their_network() {
        for (address, network) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
            ("::1", "::"),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(client_network(address).to_string(), network);
        }
    }

    #[test]
    fn a_network_maps_to_itself() {
        check(any::<IpAddr>(), |address| {
            assert_eq!(client_network(client_network(address)), client_network(address));
        });
    }
}
