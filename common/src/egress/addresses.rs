//! Which addresses may be connected to: those of the public internet, and none that leads back to ourselves.
//!
//! The ranges are those that IANA's registries of special-purpose addresses (iana.org/assignments/iana-ipv4-special-registry
//! and iana-ipv6-special-registry, set up by RFC 6890 and amended by RFC 8190) do not call globally reachable, and those of
//! its registries of multicast and reserved space. A range is refused whole, although a few addresses in some are public by
//! exception: those belong to protocols, and no receiver has one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range by its first address and the bits of its prefix, and what an address in it is.
type Range<A> = (A, u32, &'static str);

pub(super) const LOOPBACK: &str = "a loopback address";

const V4: [Range<Ipv4Addr>; 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "an address of no host"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private address"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "an address within a carrier's network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, LOOPBACK),
    // Clouds tell a machine its credentials at 169.254.169.254.
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local address"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private address"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "an address of a protocol"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "an address for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "an address of a 6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private address"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "an address for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "an address for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "an address for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast address"),
    // The broadcast address among them.
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved address"),
    // Public by its number; on Azure each machine's own host answers there.
    (Ipv4Addr::new(168, 63, 129, 16), 32, "an address of a cloud's host"),
];

/// Global unicast space, the only part of IPv6 in which hosts of the internet have addresses (RFC 4291, 2.4).
const V6_GLOBAL: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What is refused within global unicast space.
const V6: [Range<Ipv6Addr>; 4] = [
    // Teredo (2001::/32), which embeds IPv4, benchmarks, ORCHID, and protocols.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "an address of a protocol"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "an address for documentation"),
    // Embeds IPv4, and hardly anybody relays it any more (RFC 7526).
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "a 6to4 address"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "an address for documentation"),
];

/// What is refused outside it, by name for the reader's sake: the rest there is refused too.
const V6_NAMED: [Range<Ipv6Addr>; 5] = [
    (Ipv6Addr::UNSPECIFIED, 128, "an address of no host"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "a private address"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "a link-local address"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "a private address"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "a multicast address"),
];

/// The prefix under which translators show IPv4 to hosts that have IPv6 alone (RFC 6052): the last 32 bits are the address.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// How far connections may reach, by who named the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// A stranger: the public internet.
    Public,
    /// A stranger, with the operator's leave to name this machine.
    Loopback,
    /// The operator: wherever the network leads.
    Anywhere,
}

impl Reach {
    /// Why no connection may be made to this address; none if it may.
    pub(super) fn refusal(self, address: IpAddr) -> Option<&'static str> {
        match self {
            Self::Public => refusal(address, false),
            Self::Loopback => refusal(address, true),
            Self::Anywhere => None,
        }
    }
}

/// Whether an address is one of the public internet.
pub fn is_public(address: IpAddr) -> bool {
    refusal(address, false).is_none()
}

/// Why no stranger may have us connect to this address, as what it is; none if one may.
pub(super) fn refusal(address: IpAddr, allow_loopback: bool) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refusal_v4(address, allow_loopback),
        // ::ffff:a.b.c.d is a.b.c.d to the operating system, so it is here.
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
    let (_, _, what) = V4.iter().find(|(first, bits, _)| within_v4(address, *first, *bits))?;
    Some(what)
}

fn refusal_v6(address: Ipv6Addr, allow_loopback: bool) -> Option<&'static str> {
    let find = |ranges: &[Range<Ipv6Addr>]| {
        ranges.iter().find(|(first, bits, _)| within_v6(address, *first, *bits)).map(|(_, _, what)| *what)
    };
    if address == Ipv6Addr::LOCALHOST {
        return (!allow_loopback).then_some(LOOPBACK);
    }
    if within_v6(address, NAT64.0, NAT64.1) {
        let [.., a, b, c, d] = address.octets();
        // The loopback behind a translator is the translator's.
        return refusal_v4(Ipv4Addr::new(a, b, c, d), false);
    }
    if within_v6(address, V6_GLOBAL.0, V6_GLOBAL.1) {
        return find(&V6);
    }
    // Addresses "compatible" with IPv4 (::/96), translators' own prefixes (64:ff9b:1::/48), what is discarded (100::/64),
    // segments (5f00::/16), and all that has not been given out.
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
        text.parse().unwrap_or_else(|_| panic!("{text} is no address"))
    }

    /// Every range by its first and last address, and its neighbours, which are public unless the next range begins there.
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
        // From here on IPv6: below the translators' prefix, between it and global unicast, and above.
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
    fn ranges_begin_and_end_where_the_registries_say() {
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
    fn what_servers_must_not_reach_is_refused_by_its_name() {
        for (address, what) in [
            ("127.0.0.1", LOOPBACK),
            ("127.8.8.8", LOOPBACK),
            ("::1", LOOPBACK),
            ("::ffff:127.0.0.1", LOOPBACK),
            ("64:ff9b::127.0.0.1", LOOPBACK),
            ("0.0.0.0", "an address of no host"),
            ("::", "an address of no host"),
            ("169.254.169.254", "a link-local address"),
            ("::ffff:169.254.169.254", "a link-local address"),
            ("64:ff9b::a9fe:a9fe", "a link-local address"),
            ("fe80::1", "a link-local address"),
            ("192.0.0.192", "an address of a protocol"),
            ("100.100.100.200", "an address within a carrier's network"),
            ("168.63.129.16", "an address of a cloud's host"),
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
            ("2001:0:53aa:64c:0:7a68:8001:9e9b", "an address of a protocol"),
            ("2001:10::1", "an address of a protocol"),
            ("2001:20::1", "an address of a protocol"),
            ("2002:7f00:1::", "a 6to4 address"),
            ("2002:808:808::1", "a 6to4 address"),
        ] {
            assert_eq!(refusal(ip(address), false), Some(what), "{address}");
        }
    }

    #[test]
    fn the_public_internet_is_open() {
        for address in
            ["1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001::200e", "::ffff:8.8.8.8"]
        {
            assert_eq!(refusal(ip(address), false), None, "{address}");
        }
    }

    #[test]
    fn the_permission_for_loopback_opens_nothing_else() {
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

    /// 65,537 addresses from all of IPv4, 65,536 being too regular a step.
    fn all_over_v4() -> impl Iterator<Item = Ipv4Addr> {
        (0..=u32::MAX).step_by(65_521).map(Ipv4Addr::from_bits)
    }

    #[test]
    fn an_address_that_embeds_another_is_judged_by_it() {
        for address in all_over_v4() {
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
    fn nothing_is_open_that_the_standard_library_calls_special() {
        let mut open = 0;
        for address in all_over_v4() {
            let special = address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_broadcast()
                || address.is_documentation()
                || address.is_unspecified();
            let refused = refusal(address.into(), false).is_some();
            assert!(refused || !special, "{address}");
            open += usize::from(!refused);
        }
        assert!((50_000..60_000).contains(&open), "{open} of 65,000 open addresses");
    }
}
