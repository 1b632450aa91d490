//! Reading from sockets that may have nothing to read.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Duration;

/// Reads whatever has arrived, without blocking. Returns false at the end of the stream.
pub(super) fn read_available(stream: &mut impl Read, into: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 16 * 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => {
                into.extend(&buffer[..length]);
                // What arrives from now on, or the end, is found by the next call of `readable`.
                if length < buffer.len() {
                    return true;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// Whether something can be read within `limit`.
#[allow(unsafe_code)]
pub(super) fn has_arrived(stream: &TcpStream, limit: Duration) -> bool {
    let mut poll = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = libc::timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: i64::from(limit.subsec_nanos()) };
    // SAFETY: one valid entry, a valid time, no signal mask.
    unsafe { libc::ppoll(&raw mut poll, 1, &raw const limit, std::ptr::null()) > 0 }
}

/// Those of the sockets that can be read.
#[allow(unsafe_code)]
pub(super) fn readable(sockets: impl Iterator<Item = RawFd>) -> Vec<RawFd> {
    let mut polls: Vec<_> = sockets.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: as many valid entries as the length says; does not wait.
    if unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 0) } <= 0 {
        return Vec::new();
    }
    polls.retain(|poll| poll.revents != 0);
    polls.into_iter().map(|poll| poll.fd).collect()
}
