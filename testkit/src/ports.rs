//! Free ports on the loopback interface.

use std::{
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, TcpListener},
    sync::{
        OnceLock,
        atomic::{AtomicU16, Ordering},
    },
};

use anyhow::{Result, bail};

/// Below the ephemeral port range of every system: while a server is down between `kill9` and `restart`, no outgoing
/// connection can take its port.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// Whether a server could listen on `port` of 127.0.0.1 now.
pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// A free port that this process has not handed out before. The random start makes collisions between concurrent test
/// processes rare.
pub(crate) fn free() -> Result<u16> {
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU16::new((RandomState::new().hash_one(0) % u64::from(COUNT)) as u16));
    for _ in 0..COUNT {
        let port = FIRST + next.fetch_add(1, Ordering::Relaxed) % COUNT;
        if is_free(port) {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}
