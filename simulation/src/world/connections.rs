//! The connections of all processes, and what happens on them.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::postgres::{PostgresServer, Sent};
use super::redis::RedisServer;
use super::stream::{read_available, readable};
use super::{Action, ConnectionId, Outage, ProcessId, Service, StatementFault, World};
use crate::clock;
use crate::host::Opened;
use crate::wire::{postgres, redis};

/// A connection that a process has opened.
pub(super) struct Connection {
    process: ProcessId,
    address: SocketAddr,
    client: UnixStream,
    /// Bytes from the process that were not forwarded yet.
    outgoing: Vec<u8>,
    /// Bytes for the process that were not delivered yet.
    incoming: Vec<u8>,
    /// Whether the process, or a fault, has closed it.
    closed: bool,
    server: Server,
}

enum Server {
    Postgres(Box<PostgresServer>),
    Redis(RedisServer),
    /// Another process; `None` once it has closed the connection.
    Process {
        process: ProcessId,
        stream: Option<UnixStream>,
    },
}

impl Connection {
    pub(super) fn blocked_until(&self) -> Option<u64> {
        match &self.server {
            Server::Redis(server) => server.blocked_until,
            Server::Postgres(_) | Server::Process { .. } => None,
        }
    }

    /// Whether the service can receive a request.
    fn has_request(&self) -> bool {
        match &self.server {
            Server::Postgres(server) => server.request(&self.outgoing).is_some(),
            Server::Redis(_) => !self.outgoing.is_empty() && redis::value(&self.outgoing).is_some(),
            Server::Process { .. } => !self.outgoing.is_empty(),
        }
    }

    /// Whether the process can receive something: bytes, or the end of the stream.
    fn has_response(&self) -> bool {
        !self.incoming.is_empty() || matches!(self.server, Server::Process { stream: None, .. })
    }

    /// The sockets with which a process sends: as the one that has connected, and as the one that has accepted.
    fn sockets_of(&self, id: ProcessId) -> [Option<RawFd>; 2] {
        let accepted = match &self.server {
            Server::Process { process, stream: Some(stream) } if *process == id => Some(stream.as_raw_fd()),
            Server::Process { .. } | Server::Postgres(_) | Server::Redis(_) => None,
        };
        [(self.process == id).then(|| self.client.as_raw_fd()), accepted]
    }

    fn is_waiting_for_lock(&self) -> bool {
        matches!(&self.server, Server::Postgres(server) if server.is_frozen())
    }
}

impl World {
    /// Everything that can happen on the connections.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions: Vec<Action> = self.unfrozen.iter().map(|id| Action::Unfreeze(*id)).collect();
        for (id, connection) in &self.connections {
            if self.outages.contains_key(&connection.address) {
                continue;
            }
            if connection.has_request() {
                actions.push(Action::Forward(*id));
            }
            if connection.has_response() {
                actions.push(Action::Deliver(*id));
            }
        }
        actions
    }

    /// Adds a connection that a process has opened. Closes it at once if nothing listens there.
    pub(super) fn open(&mut self, process: ProcessId, opened: Opened) -> Result<()> {
        if self.outages.get(&opened.to) == Some(&Outage::Refused) {
            self.mark_ready(process);
            return Ok(());
        }
        let server = match self.services.get(&opened.to) {
            Some(Service::Postgres) => Server::Postgres(Box::default()),
            Some(Service::Redis(port)) => Server::Redis(RedisServer::connect(*port)?),
            Some(Service::Process(to, port)) => {
                let from = SocketAddr::from(([10, 0, 1, process.to_le_bytes()[0]], 40_000));
                let stream = self.processes.get(to).and_then(|target| target.host.connect(*port, from).ok());
                let to = *to;
                self.mark_ready(to);
                Server::Process { process: to, stream }
            }
            None => bail!("{} is unknown", opened.to),
        };
        opened.stream.set_nonblocking(true)?;
        self.last_connection += 1;
        let connection = Connection {
            process,
            address: opened.to,
            client: opened.stream,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            closed: false,
            server,
        };
        self.connections.insert(self.last_connection, connection);
        Ok(())
    }

    /// Reads what a process has sent on its own connections, and on those of others to it.
    pub(super) fn receive_from(&mut self, id: ProcessId) {
        let sockets = self.connections.values().flat_map(|connection| connection.sockets_of(id));
        let readable = readable(sockets.into_iter().flatten());
        if readable.is_empty() {
            return;
        }
        for connection in self.connections.values_mut() {
            let [client, accepted] = connection.sockets_of(id);
            if client.is_some_and(|fd| readable.contains(&fd)) {
                connection.closed |= !read_available(&mut connection.client, &mut connection.outgoing);
            }
            if accepted.is_some_and(|fd| readable.contains(&fd))
                && let Server::Process { stream, .. } = &mut connection.server
                && let Some(open) = stream
                && !read_available(open, &mut connection.incoming)
            {
                *stream = None;
            }
        }
    }

    /// Responds to tests whether a connection to Postgres is alive. Once the faults have ended, all are, and their order
    /// does not matter.
    pub(super) fn respond_to_pings(&mut self) {
        let mut processes = Vec::new();
        for connection in self.connections.values_mut() {
            let Server::Postgres(server) = &mut connection.server else { continue };
            if connection.incoming.is_empty()
                && let Some(response) = server.pong(&connection.outgoing)
            {
                connection.outgoing.clear();
                connection.closed |= connection.client.write_all(&response).is_err();
                processes.push(connection.process);
            }
        }
        for process in processes {
            self.mark_ready(process);
        }
    }

    pub(super) fn forward(&mut self, id: ConnectionId) -> Result<()> {
        self.pass_latency()?;
        let connection = self.connections.get_mut(&id).context("a connection")?;
        match &mut connection.server {
            Server::Postgres(server) => {
                let length = server.request(&connection.outgoing).context("a request")?;
                let request: Vec<u8> = connection.outgoing.drain(..length).collect();
                self.forward_to_postgres(id, &request)?;
            }
            Server::Redis(server) => {
                let length = redis::value(&connection.outgoing).context("a command")?;
                let command: Vec<u8> = connection.outgoing.drain(..length).collect();
                let is_password = redis::name(&command).eq_ignore_ascii_case(b"AUTH");
                self.trace.record("redis", &id, if is_password { &[] } else { &command });
                let before = connection.incoming.len();
                server.forward(&command, &mut connection.incoming)?;
                let waits = server.may_receive_later();
                self.trace.record("redis sent", &id, &connection.incoming[before..]);
                if waits || redis::wakes_others(&command) {
                    self.poll_redis()?;
                }
            }
            Server::Process { process, stream } => {
                let bytes = std::mem::take(&mut connection.outgoing);
                self.trace.record("http", &id, &bytes);
                let process = *process;
                if stream.as_mut().is_none_or(|stream| stream.write_all(&bytes).is_err()) {
                    *stream = None;
                }
                self.mark_ready(process);
            }
        }
        self.remove_closed()
    }

    fn forward_to_postgres(&mut self, id: ConnectionId, request: &[u8]) -> Result<()> {
        // Passwords differ between installations.
        let shown = if request.first() == Some(&b'p') { &[][..] } else { request };
        self.trace.record("postgres", &id, shown);
        let connection = self.connections.get_mut(&id).context("a connection")?;
        let process = connection.process;
        let fault = self.processes.get_mut(&process).and_then(|process| next_fault(&mut process.fault));
        if fault.is_none_or(|fault| fault.executed) {
            let Server::Postgres(server) = &mut connection.server else { bail!("not Postgres") };
            match server.send(request, &mut self.backends)? {
                Sent::Responded(response) => self.receive_from_postgres(id, response)?,
                Sent::Pending => self.await_postgres(id)?,
            }
        }
        self.locks_changed |= self.connections.values().any(Connection::is_waiting_for_lock);
        let Some(fault) = fault else { return Ok(()) };
        self.trace.record("lost", &format!("{id} {fault:?}"), &[]);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.incoming.clear();
            connection.closed = true;
            connection.outgoing.clear();
        }
        if fault.kills { self.kill(process) } else { self.remove_closed() }
    }

    /// Waits until the statement has its response or waits for a lock that another transaction holds. In the latter
    /// case the server's process is stopped, so that of several waiting processes only one continues at a time.
    fn await_postgres(&mut self, id: ConnectionId) -> Result<()> {
        let connection = self.connections.get_mut(&id).context("a connection")?;
        let Server::Postgres(server) = &mut connection.server else { bail!("not Postgres") };
        loop {
            if let Some(response) = server.response()? {
                return self.receive_from_postgres(id, response);
            }
            if server.waits_for_lock(&mut self.observer)? {
                self.trace.record("blocked", &id, &[]);
                return server.freeze(true);
            }
        }
    }

    fn receive_from_postgres(&mut self, id: ConnectionId, mut response: Vec<u8>) -> Result<()> {
        postgres::mask(&mut response);
        self.trace.record("response", &id, &response);
        let connection = self.connections.get_mut(&id).context("a connection")?;
        // The server closes the connection at the client's request, and after a fatal error.
        connection.closed |= response.is_empty();
        connection.incoming.extend(response);
        let Server::Postgres(server) = &mut connection.server else { bail!("not Postgres") };
        let Some(process) = self.processes.get_mut(&connection.process) else { return Ok(()) };
        if !server.has_ended_batch() || !std::mem::take(&mut process.loses_batch) {
            return Ok(());
        }
        self.trace.record("lost", &format!("{id} a batch"), &[]);
        self.lost_batches += 1;
        connection.incoming.clear();
        connection.outgoing.clear();
        connection.closed = true;
        self.remove_closed()
    }

    /// The statements that waited for a lock and have got it.
    pub(super) fn find_unfrozen(&mut self) -> Result<Vec<ConnectionId>> {
        let mut unfrozen = Vec::new();
        for (id, connection) in &self.connections {
            if let Server::Postgres(server) = &connection.server
                && server.is_frozen()
                && !server.waits_for_lock(&mut self.observer)?
            {
                unfrozen.push(*id);
            }
        }
        Ok(unfrozen)
    }

    /// Lets a statement continue that has got its lock.
    pub(super) fn unfreeze(&mut self, id: ConnectionId) -> Result<()> {
        if let Some(Connection { server: Server::Postgres(server), .. }) = self.connections.get_mut(&id) {
            server.freeze(false)?;
        }
        self.locks_changed = true;
        self.await_postgres(id)
    }

    pub(super) fn close_connections_to(&mut self, address: SocketAddr) -> Result<()> {
        for connection in self.connections.values_mut().filter(|connection| connection.address == address) {
            connection.closed = true;
        }
        self.remove_closed()
    }

    /// Removes connections that have been closed. A server's process ends, and its transaction is rolled back, before
    /// anything else happens.
    pub(super) fn remove_closed(&mut self) -> Result<()> {
        let closed: Vec<ConnectionId> =
            self.connections.iter().filter(|(_, connection)| connection.closed).map(|(id, _)| *id).collect();
        for id in closed {
            let Some(connection) = self.connections.remove(&id) else { continue };
            self.mark_ready(connection.process);
            match connection.server {
                Server::Postgres(server) => {
                    self.unfrozen.retain(|unfrozen| *unfrozen != id);
                    self.locks_changed = true;
                    server.end(&mut self.backends)?;
                }
                Server::Process { process, .. } => self.mark_ready(process),
                Server::Redis(_) => {}
            }
        }
        Ok(())
    }

    /// Reads what Redis has sent to connections that wait.
    pub(super) fn poll_redis(&mut self) -> Result<()> {
        // Redis writes all responses of one round of its event loop before the next round.
        for _ in 0..2 {
            self.redis.call(b"*1\r\n$4\r\nPING\r\n")?;
        }
        for (id, connection) in &mut self.connections {
            let Server::Redis(server) = &mut connection.server else { continue };
            if !server.may_receive_later() {
                continue;
            }
            let before = connection.incoming.len();
            server.receive(Duration::ZERO, &mut connection.incoming)?;
            if connection.incoming.len() > before {
                self.trace.record("redis sent", id, &connection.incoming[before..]);
            } else if server.blocked_until.is_some_and(|at| at <= clock::now_us()) {
                server.blocked_until = Some(clock::now_us() + 1_000);
            }
        }
        Ok(())
    }

    /// Delivers everything that services have sent.
    pub(super) fn deliver_all(&mut self) -> Result<()> {
        for action in self.actions() {
            if let Action::Deliver(connection) = action {
                self.deliver(connection)?;
            }
        }
        Ok(())
    }

    pub(super) fn deliver(&mut self, id: ConnectionId) -> Result<()> {
        let connection = self.connections.get_mut(&id).context("a connection")?;
        let bytes = std::mem::take(&mut connection.incoming);
        if let Some(left) = self.losses.get_mut(&connection.address).filter(|left| **left > 0 && !bytes.is_empty()) {
            *left -= 1;
            self.trace.record("lost", &id, &bytes);
            connection.closed = true;
            return self.remove_closed();
        }
        self.trace.record("deliver", &id, &bytes);
        let is_last = matches!(connection.server, Server::Process { stream: None, .. });
        connection.closed |= connection.client.write_all(&bytes).is_err() || is_last;
        let process = connection.process;
        self.mark_ready(process);
        self.remove_closed()
    }
}

/// Counts a request, and returns the fault if it is due.
fn next_fault(pending: &mut Option<StatementFault>) -> Option<StatementFault> {
    let fault = pending.as_mut()?;
    match fault.skip.checked_sub(1) {
        Some(skip) => {
            fault.skip = skip;
            None
        }
        None => pending.take(),
    }
}
