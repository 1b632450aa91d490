//! Trusted proxies, whose `X-Forwarded-For` determines the client address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The networks of the load balancers in front of this service. Other peers are not trusted.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Arc<[Network]>);

/// A CIDR range.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    /// Parses `10.0.0.0/8` or a single address. Refuses a range of all addresses, which would trust everyone, and one
    /// whose host bits are set, which is probably a typo.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().ok()?;
        let all = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(all);
        let network = Self { first, bits };
        ((1..=all).contains(&bits) && network.masked(first) == Some(first)).then_some(network)
    }

    /// The first address of the network of this size that contains the address; `None` for another address family.
    fn masked(self, address: IpAddr) -> Option<IpAddr> {
        match (self.first, address) {
            (IpAddr::V4(_), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32_u32.checked_sub(self.bits)?).unwrap_or(0);
                Some(IpAddr::V4((address.to_bits() & mask).into()))
            }
            (IpAddr::V6(_), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128_u32.checked_sub(self.bits)?).unwrap_or(0);
                Some(IpAddr::V6((address.to_bits() & mask).into()))
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.masked(address) == Some(self.first)
    }
}

impl Proxies {
    pub fn new(networks: Vec<Network>) -> Self {
        Self(networks.into())
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// The client address: the peer, or behind a trusted proxy the last address in `X-Forwarded-For` that is not a
    /// trusted proxy. Each proxy appends the address of its peer, so entries that the client wrote come before and are
    /// not reached. If an entry is not an address, the peer counts.
    pub fn client<'a>(&self, peer: IpAddr, forwarded: impl DoubleEndedIterator<Item = &'a [u8]>) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return peer;
        }
        for hop in forwarded.rev().flat_map(|line| line.rsplit(|byte| *byte == b',')) {
            match address(hop) {
                Some(address) if self.trusts(address) => {}
                Some(address) => return address,
                None => return peer,
            }
        }
        peer
    }
}

/// Parses an address, optionally with a port, which some load balancers add.
fn address(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?.trim();
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(with_port).or_else(bare).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    use super::*;

    fn client(proxies: &[&str], peer: &str, forwarded: &[&str]) -> String {
        let proxies = Proxies::new(proxies.iter().map(|text| Network::parse(text).expect("a network")).collect());
        let lines = forwarded.iter().map(|line| line.as_bytes());
        proxies.client(peer.parse().expect("an address"), lines).to_string()
    }

    #[test]
    fn forwarded_addresses_count_only_from_trusted_proxies() {
        const BALANCERS: &[&str] = &["10.0.0.0/8", "2001:db8::/32"];
        for (proxies, peer, forwarded, expected) in [
            // No proxy is trusted by default.
            (&[][..], "10.0.0.1", &["192.0.2.7"][..], "10.0.0.1"),
            (BALANCERS, "192.0.2.1", &["198.51.100.7"], "192.0.2.1"),
            (BALANCERS, "11.0.0.1", &["198.51.100.7"], "11.0.0.1"),
            (BALANCERS, "10.0.0.1", &["192.0.2.7"], "192.0.2.7"),
            (BALANCERS, "::ffff:10.0.0.1", &["::ffff:192.0.2.7"], "192.0.2.7"),
            (BALANCERS, "2001:db8::1", &["2a00::7"], "2a00::7"),
            // Entries by the client come before those by the balancer.
            (BALANCERS, "10.0.0.1", &["203.0.113.9, 10.0.0.9, 192.0.2.7"], "192.0.2.7"),
            (BALANCERS, "10.0.0.1", &["203.0.113.9", "192.0.2.7"], "192.0.2.7"),
            (BALANCERS, "10.0.0.1", &["nonsense, 192.0.2.7"], "192.0.2.7"),
            // A chain of trusted proxies.
            (BALANCERS, "10.0.0.1", &["192.0.2.7, 10.9.9.9"], "192.0.2.7"),
            (BALANCERS, "10.0.0.1", &["192.0.2.7", "2001:db8::9,10.9.9.9"], "192.0.2.7"),
            (BALANCERS, "10.0.0.1", &["10.9.9.9"], "10.0.0.1"),
            // With a port.
            (BALANCERS, "10.0.0.1", &["192.0.2.7:4711"], "192.0.2.7"),
            (BALANCERS, "10.0.0.1", &["[2a00::7]:4711"], "2a00::7"),
            (BALANCERS, "10.0.0.1", &["[2a00::7]"], "2a00::7"),
            // Entries that are not addresses.
            (BALANCERS, "10.0.0.1", &[], "10.0.0.1"),
            (BALANCERS, "10.0.0.1", &[""], "10.0.0.1"),
            (BALANCERS, "10.0.0.1", &["unknown"], "10.0.0.1"),
            (BALANCERS, "10.0.0.1", &["192.0.2.7, unknown"], "10.0.0.1"),
            (BALANCERS, "10.0.0.1", &["192.0.2.7,"], "10.0.0.1"),
            (&["192.0.2.1"], "192.0.2.1", &["198.51.100.7"], "198.51.100.7"),
            (&["192.0.2.1"], "192.0.2.2", &["198.51.100.7"], "192.0.2.2"),
        ] {
            assert_eq!(client(proxies, peer, forwarded), expected, "{proxies:?} {peer} {forwarded:?}");
        }
    }

    #[test]
    fn invalid_networks_are_refused() {
        for valid in ["10.0.0.0/8", "10.1.2.3", "10.1.2.3/32", "::1", "fd00::/8"] {
            assert!(Network::parse(valid).is_some(), "{valid}");
        }
        for invalid in [
            "",
            "10.0.0.1/8",
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/",
            "localhost",
            "10.0.0.0/8 ::1",
        ] {
            assert!(Network::parse(invalid).is_none(), "{invalid}");
        }
    }

    /// The result is the peer or an address in the header, and entries before the last one by a balancer change
    /// nothing.
    #[test]
    fn entries_written_by_the_client_do_not_count() {
        let lines = prop_oneof![mutated("203.0.113.9, 10.0.0.9"), mutated("[2a00::7]:80,::1,"), texts()];
        check((lines, any::<u32>()), |(line, bits)| {
            let proxies = Proxies::new(vec![Network::parse("10.0.0.0/8").expect("a network")]);
            let (peer, real) = (IpAddr::from([10, 0, 0, 1]), IpAddr::V4(bits.into()));
            let alone = proxies.client(peer, std::iter::once(line.as_bytes()));
            assert!(alone == peer || !proxies.trusts(alone));
            let appended = format!("{line},{real}");
            let client = proxies.client(peer, std::iter::once(appended.as_bytes()));
            assert_eq!(client, if proxies.trusts(real) { alone } else { real }, "{appended}");
            let untrusted = IpAddr::from([192, 0, 2, 1]);
            assert_eq!(proxies.client(untrusted, std::iter::once(line.as_bytes())), untrusted);
        });
    }
}
