//! Which addresses may be connected to: only those of the public internet.
//!
//! Refused are the ranges that IANA's special-purpose address registries
//! (iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry, RFC 6890 amended by RFC 8190) do
//! not list as globally reachable, and multicast and reserved space. Some ranges contain a few public addresses. Those
//! are assigned to protocols and no webhook receiver has one, so a range is refused whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first address of a range, its prefix length, and a description for messages.
type Range<A> = (A, u32, &'static str);

pub(super) const LOOPBACK: &str = "a loopback address";

const V4: [Range<Ipv4Addr>; 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "an unspecified address"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private address"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a carrier-grade NAT address"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, LOOPBACK),
    // Includes 169.254.169.254, where clouds serve instance credentials.
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local address"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private address"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "a protocol-assigned address"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "a documentation address"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a 6to4 relay address"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private address"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "a benchmarking address"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "a documentation address"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "a documentation address"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast address"),
    // Includes the broadcast address.
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved address"),
    // Public by its number, but on Azure it is the virtual IP of the host platform.
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud platform address"),
];

/// Global unicast space, the only part of IPv6 with addresses of internet hosts (RFC 4291, 2.4).
const V6_GLOBAL: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Refused ranges within global unicast space.
const V6: [Range<Ipv6Addr>; 4] = [
    // Teredo (2001::/32, embeds IPv4), benchmarking, ORCHID and protocol assignments.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "a protocol-assigned address"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "a documentation address"),
    // Embeds IPv4; deprecated (RFC 7526).
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "a 6to4 address"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "a documentation address"),
];

/// Ranges outside global unicast space that have a description of their own. All of that space is refused.
const V6_NAMED: [Range<Ipv6Addr>; 5] = [
    (Ipv6Addr::UNSPECIFIED, 128, "an unspecified address"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "a private address"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "a link-local address"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "a private address"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "a multicast address"),
];

/// The NAT64 prefix (RFC 6052): the last 32 bits are an IPv4 address.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Which addresses may be connected to, depending on who chose the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Chosen by a merchant: the public internet.
    Public,
    /// Chosen by a merchant where the operator allows loopback.
    Loopback,
    /// Chosen by the operator: any address.
    Anywhere,
}

impl Reach {
    /// Describes the address if it must not be connected to.
    pub(super) fn refusal(self, address: IpAddr) -> Option<&'static str> {
        match self {
            Self::Public => refusal(address, false),
            Self::Loopback => refusal(address, true),
            Self::Anywhere => None,
        }
    }
}

/// Whether an address belongs to the public internet.
pub fn is_public(address: IpAddr) -> bool {
    refusal(address, false).is_none()
}

/// Describes the address if merchants must not make us connect to it.
pub(super) fn refusal(address: IpAddr, allow_loopback: bool) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refusal_v4(address, allow_loopback),
        // The operating system treats ::ffff:a.b.c.d as a.b.c.d.
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => refusal_v4(mapped, allow_loopback),
            None => refusal_v6(address, allow_loopback),
        },
    }
}

fn refusal_v4(address: Ipv4Addr, allow_loopback: bool) -> Option<&'static str> {
    if allow_loopback && address.is_loopback() {
        return None;
    }
    let (_, _, description) = V4.iter().find(|(first, bits, _)| within_v4(address, *first, *bits))?;
    Some(description)
}

fn refusal_v6(address: Ipv6Addr, allow_loopback: bool) -> Option<&'static str> {
    let find = |ranges: &[Range<Ipv6Addr>]| {
        ranges.iter().find(|(first, bits, _)| within_v6(address, *first, *bits)).map(|(_, _, description)| *description)
    };
    if address == Ipv6Addr::LOCALHOST {
        return (!allow_loopback).then_some(LOOPBACK);
    }
    if within_v6(address, NAT64.0, NAT64.1) {
        let [.., a, b, c, d] = address.octets();
        // A translated loopback address is that of the translator, so loopback is not allowed here.
        return refusal_v4(Ipv4Addr::new(a, b, c, d), false);
    }
    if within_v6(address, V6_GLOBAL.0, V6_GLOBAL.1) {
        return find(&V6);
    }
    // IPv4-compatible addresses (::/96), local-use translation (64:ff9b:1::/48), discard-only (100::/64), segment
    // routing (5f00::/16), and unassigned space.
    Some(find(&V6_NAMED).unwrap_or("a reserved address"))
}

fn within_v4(address: Ipv4Addr, first: Ipv4Addr, bits: u32) -> bool {
    (address.to_bits() ^ first.to_bits()).leading_zeros() >= bits
}

fn within_v6(address: Ipv6Addr, first: Ipv6Addr, bits: u32) -> bool {
    (address.to_bits() ^ first.to_bits()).leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap_or_else(|_| panic!("{text} is not an address"))
    }

    /// The address before each range, its first and last address, and the one after it. `-` where the neighbour is
    /// refused too.
    const EDGES: [(&str, &str, &str, &str); 25] = [
        ("-", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
        ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
        ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
        ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
        ("168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17"),
        ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
        ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
        ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
        ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
        ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
        ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
        ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
        ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
        ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
        ("223.255.255.255", "224.0.0.0", "239.255.255.255", "-"),
        ("-", "240.0.0.0", "255.255.255.255", "-"),
        // IPv6: below the NAT64 prefix, between it and global unicast space, and above.
        ("-", "::", "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", "64:ff9b::808:808"),
        ("64:ff9b::808:808", "64:ff9b:0:0:0:1::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"),
        ("2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"),
        (
            "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db8::",
            "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db9::",
        ),
        ("2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
        ("3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
        ("3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
        ("-", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
        ("-", "fe00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
    ];

    #[test]
    fn ranges_match_the_registries() {
        for (before, first, last, after) in EDGES {
            for address in [first, last] {
                assert!(refusal(ip(address), false).is_some(), "{address}");
            }
            for address in [before, after].into_iter().filter(|address| *address != "-") {
                assert_eq!(refusal(ip(address), false), None, "{address}");
            }
        }
    }

    #[test]
    fn refused_addresses_are_described() {
        for (address, description) in [
            ("127.0.0.1", LOOPBACK),
            ("127.8.8.8", LOOPBACK),
            ("::1", LOOPBACK),
            ("::ffff:127.0.0.1", LOOPBACK),
            ("64:ff9b::127.0.0.1", LOOPBACK),
            ("0.0.0.0", "an unspecified address"),
            ("::", "an unspecified address"),
            ("169.254.169.254", "a link-local address"),
            ("::ffff:169.254.169.254", "a link-local address"),
            ("64:ff9b::a9fe:a9fe", "a link-local address"),
            ("fe80::1", "a link-local address"),
            ("192.0.0.192", "a protocol-assigned address"),
            ("100.100.100.200", "a carrier-grade NAT address"),
            ("168.63.129.16", "a cloud platform address"),
            ("fd00:ec2::254", "a private address"),
            ("fd20:ce::254", "a private address"),
            ("fec0::1", "a private address"),
            ("255.255.255.255", "a reserved address"),
            ("ff02::1", "a multicast address"),
            ("::127.0.0.1", "a reserved address"),
            ("::8.8.8.8", "a reserved address"),
            ("64:ff9b:1::808:808", "a reserved address"),
            ("100::1", "a reserved address"),
            ("5f00::1", "a reserved address"),
            ("2001:0:53aa:64c:0:7a68:8001:9e9b", "a protocol-assigned address"),
            ("2001:10::1", "a protocol-assigned address"),
            ("2001:20::1", "a protocol-assigned address"),
            ("2002:7f00:1::", "a 6to4 address"),
            ("2002:808:808::1", "a 6to4 address"),
        ] {
            assert_eq!(refusal(ip(address), false), Some(description), "{address}");
        }
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in
            ["1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001::200e", "::ffff:8.8.8.8"]
        {
            assert_eq!(refusal(ip(address), false), None, "{address}");
        }
    }

    #[test]
    fn allowing_loopback_allows_nothing_else() {
        for address in ["127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(refusal(ip(address), true), None, "{address}");
        }
        let not_loopback = EDGES.iter().flat_map(|(_, first, last, _)| [*first, *last]);
        for address in not_loopback.chain(["::127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::", "169.254.169.254"]) {
            if !address.starts_with("127.") {
                assert!(refusal(ip(address), true).is_some(), "{address}");
            }
        }
    }

    /// About 65,550 addresses across IPv4. A step of 65,536 would vary only the upper half.
    fn sampled_v4() -> impl Iterator<Item = Ipv4Addr> {
        (0..=u32::MAX).step_by(65_521).map(Ipv4Addr::from_bits)
    }

    #[test]
    fn embedded_ipv4_addresses_are_checked() {
        for address in sampled_v4() {
            let own = refusal(address.into(), false);
            assert_eq!(refusal(address.to_ipv6_mapped().into(), false), own, "{address} mapped");
            let translated = Ipv6Addr::from_bits(NAT64.0.to_bits() | u128::from(address.to_bits()));
            assert_eq!(refusal(translated.into(), false), own, "{address} translated");
            let [a, b, c, d] = address.octets().map(u16::from);
            for wrapped in [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, a << 8 | b, c << 8 | d),
                Ipv6Addr::new(0x2002, a << 8 | b, c << 8 | d, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, !(a << 8 | b), !(c << 8 | d)),
                Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, a << 8 | b, c << 8 | d),
            ] {
                let loopback = wrapped == Ipv6Addr::LOCALHOST;
                assert!(refusal(wrapped.into(), !loopback).is_some(), "{wrapped}");
            }
        }
    }

    #[test]
    fn no_address_special_to_the_standard_library_is_allowed() {
        let mut allowed = 0;
        for address in sampled_v4() {
            let special = address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_broadcast()
                || address.is_documentation()
                || address.is_unspecified();
            let refused = refusal(address.into(), false).is_some();
            assert!(refused || !special, "{address}");
            allowed += usize::from(!refused);
        }
        assert!((50_000..60_000).contains(&allowed), "{allowed} of 65,550 addresses are allowed");
    }
}
