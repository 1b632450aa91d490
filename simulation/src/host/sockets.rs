//! The sockets of a process: Unix sockets that claim to be TCP sockets.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::RawFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};

use anyhow::{Context as _, Result};

use super::Opened;

#[derive(Default)]
pub(super) struct Sockets {
    opened: Vec<Opened>,
    listeners: BTreeMap<u16, Listener>,
    /// The addresses of each socket, by its number: its own and its peer's.
    addresses: BTreeMap<RawFd, (SocketAddr, Option<SocketAddr>)>,
    last_port: u16,
}

struct Listener {
    /// The name of the Unix socket in the abstract namespace.
    name: Vec<u8>,
    /// The clients that have connected and were not accepted yet.
    clients: VecDeque<SocketAddr>,
}

impl Sockets {
    pub(super) fn take_opened(&mut self) -> Vec<Opened> {
        std::mem::take(&mut self.opened)
    }

    pub(super) fn connect(&mut self, port: u16, from: SocketAddr) -> Result<UnixStream> {
        let listener = self.listeners.get_mut(&port).with_context(|| format!("nothing listens on port {port}"))?;
        let stream = UnixStream::connect_addr(&UnixAddr::from_abstract_name(&listener.name)?)?;
        stream.set_nonblocking(true)?;
        listener.clients.push_back(from);
        Ok(stream)
    }

    /// Records that socket `fd` has been connected to `to`.
    pub(super) fn record_opened(&mut self, fd: RawFd, stream: UnixStream, to: SocketAddr) {
        let local = self.local(0);
        self.addresses.insert(fd, (local, Some(to)));
        self.opened.push(Opened { stream, to });
    }

    /// Records that socket `fd` is bound to `port`, or to a free one for 0.
    pub(super) fn record_bound(&mut self, fd: RawFd, name: Vec<u8>, port: u16) {
        let local = self.local(port);
        self.addresses.insert(fd, (local, None));
        self.listeners.insert(local.port(), Listener { name, clients: VecDeque::new() });
    }

    /// Records that the listener `fd` has accepted `accepted`, and returns the client's address.
    pub(super) fn record_accepted(&mut self, fd: RawFd, accepted: RawFd) -> io::Result<SocketAddr> {
        let (local, _) = *self.addresses.get(&fd).ok_or(io::ErrorKind::NotConnected)?;
        let listener = self.listeners.get_mut(&local.port()).ok_or(io::ErrorKind::NotConnected)?;
        let client = listener.clients.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        self.addresses.insert(accepted, (local, Some(client)));
        Ok(client)
    }

    pub(super) fn local_address(&self, fd: RawFd) -> Option<SocketAddr> {
        self.addresses.get(&fd).map(|(local, _)| *local)
    }

    pub(super) fn peer_address(&self, fd: RawFd) -> Option<SocketAddr> {
        self.addresses.get(&fd).and_then(|(_, peer)| *peer)
    }

    fn local(&mut self, port: u16) -> SocketAddr {
        let port = if port == 0 {
            self.last_port += 1;
            20_000 + self.last_port % 40_000
        } else {
            port
        };
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into()
    }
}
