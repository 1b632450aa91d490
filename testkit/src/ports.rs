//! Free ports on the loopback interface.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::{
        OnceLock,
        atomic::{AtomicU16, Ordering},
    },
};

use anyhow::{Context, Result, bail};

/// Below the ephemeral port range of every system: while a server is down between `kill9` and `restart`, no outgoing
/// connection can take its port.
const FIRST: u16 = 10_000;
/// Each process takes its ports from a range of its own.
const RANGE: u16 = 1000;
const RANGES: u16 = 20;

/// Whether a server could listen on `port` of 127.0.0.1 now.
pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// A free port. It is handed out again only after all others of this process.
pub(crate) fn free() -> Result<u16> {
    static OWN: OnceLock<Option<Range>> = OnceLock::new();
    let own = OWN.get_or_init(Range::claim).as_ref().context("other test processes use all ranges of ports")?;
    // The first port of the range is the claim.
    for _ in 1..RANGE {
        let port = own.first + 1 + own.next.fetch_add(1, Ordering::Relaxed) % (RANGE - 1);
        if is_free(port) {
            return Ok(port);
        }
    }
    bail!("no free port between {} and {}", own.first, own.first + RANGE)
}

/// The first range that no other process has claimed. A process claims a range by listening on its first port.
struct Range {
    first: u16,
    next: AtomicU16,
    _claim: TcpListener,
}

impl Range {
    fn claim() -> Option<Self> {
        (0..RANGES).find_map(|range| {
            let first = FIRST + range * RANGE;
            let claim = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).ok()?;
            Some(Self { first, next: AtomicU16::new(0), _claim: claim })
        })
    }
}
