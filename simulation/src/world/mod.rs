//! The simulator: it lets one process run at a time, and otherwise decides by the seed what happens next.

mod backend;
mod connections;
mod postgres;
mod redis;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::host::{Host, Idle};
use crate::random::Random;
use crate::trace::Trace;
pub use backend::{Backend, Login};
use connections::Connection;
pub use postgres::Backends;
pub use redis::RedisServer;

/// The longest time that a message takes, in microseconds.
const MAX_LATENCY_US: u64 = 400;

/// The number of a process; a restarted process has a new one.
pub type ProcessId = u32;
type ConnectionId = u32;

/// What processes connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// The real Postgres.
    Postgres,
    /// The real Redis on this port of 127.0.0.1.
    Redis(u16),
    /// The listener on this port of a process.
    Process(ProcessId, u16),
}

/// What is wrong with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Connections break, and new ones are closed at once.
    Refused,
    /// Requests are not delivered until the outage ends.
    Unresponsive,
}

/// What happens to one of the next requests of a process to Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct StatementFault {
    /// How many requests are unaffected before it.
    pub skip: u64,
    /// Whether Postgres executes the statement; its response is lost in either case.
    pub executed: bool,
    /// Whether the process dies; otherwise only the connection breaks.
    pub kills: bool,
}

struct Process {
    name: &'static str,
    host: Host,
    idle: Idle,
    /// Something has arrived for it.
    ready: bool,
    fault: Option<StatementFault>,
    /// Whether the response to its next batch of several claims or outcomes is lost.
    loses_batch: bool,
    /// Until when it gets no turn.
    paused_until: u64,
}

impl Process {
    /// When it runs next if nothing arrives.
    fn timer(&self) -> Option<u64> {
        match self.idle {
            _ if self.ready => Some(self.paused_until),
            Idle::Until(at) => Some(at.max(self.paused_until)),
            Idle::Forever | Idle::Ended => None,
        }
    }
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// A service receives the next request of a connection.
    Forward(ConnectionId),
    /// A process receives what a service has sent.
    Deliver(ConnectionId),
    /// A statement continues that has got the lock it waited for.
    Unfreeze(ConnectionId),
}

/// All processes and connections.
pub struct World {
    random: Random,
    services: BTreeMap<SocketAddr, Service>,
    outages: BTreeMap<SocketAddr, Outage>,
    /// How many of the next responses of a service are lost.
    losses: BTreeMap<SocketAddr, u64>,
    processes: BTreeMap<ProcessId, Process>,
    connections: BTreeMap<ConnectionId, Connection>,
    last_process: ProcessId,
    last_connection: ConnectionId,
    backends: Backends,
    /// A connection of the simulator's own.
    pub observer: Backend,
    redis: RedisServer,
    /// Whether a transaction may have released locks since `unfrozen` was computed.
    locks_changed: bool,
    /// Statements that have got their lock and were not continued yet.
    unfrozen: Vec<ConnectionId>,
    /// Processes that a fault has killed since the last call of [`World::killed`].
    killed: BTreeSet<ProcessId>,
    /// Whether all connections work from now on.
    faults_ended: bool,
    /// How many responses to batches were lost.
    pub lost_batches: u64,
    /// How much later than its time a timer may fire while nothing else happens, in microseconds.
    pub drift_us: u64,
    /// What has happened.
    pub trace: Trace,
}

impl World {
    /// A world without processes. `observer` and `redis` are connections of the simulator's own.
    pub fn new(
        seed: u64,
        services: BTreeMap<SocketAddr, Service>,
        backends: Backends,
        observer: Backend,
        redis: RedisServer,
    ) -> Self {
        Self {
            random: Random::new(seed),
            services,
            outages: BTreeMap::new(),
            losses: BTreeMap::new(),
            processes: BTreeMap::new(),
            connections: BTreeMap::new(),
            last_process: 0,
            last_connection: 0,
            backends,
            observer,
            redis,
            locks_changed: false,
            unfrozen: Vec::new(),
            killed: BTreeSet::new(),
            faults_ended: false,
            lost_batches: 0,
            drift_us: 0,
            trace: Trace::default(),
        }
    }

    /// Starts a process whose wall clock is ahead of the virtual time by `wall_offset_us`.
    pub fn start<M, F>(&mut self, name: &'static str, wall_offset_us: i64, main: M) -> ProcessId
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        self.last_process += 1;
        let id = self.last_process;
        let host = Host::start(id.cast_signed(), self.random.fork(), main);
        host.set_wall_offset(wall_offset_us);
        self.trace.record("start", &name, &[]);
        let idle = Idle::Forever;
        let process = Process { name, host, idle, ready: true, fault: None, loses_batch: false, paused_until: 0 };
        self.processes.insert(id, process);
        id
    }

    /// Makes a service reachable at `address`.
    pub fn publish(&mut self, address: SocketAddr, service: Service) {
        self.services.insert(address, service);
    }

    /// Lets one thing happen, or moves the time to the next timer, at most to `until`.
    ///
    /// # Errors
    /// If Postgres or Redis fails.
    pub fn step(&mut self, until: u64) -> Result<()> {
        let now = clock::now_us();
        // A process that can run does so before anything else happens: its work takes no time.
        let runnable = self.processes.iter().find(|(_, process)| process.timer().is_some_and(|at| at <= now));
        if let Some((id, _)) = runnable {
            return self.run(*id);
        }
        if std::mem::take(&mut self.locks_changed) {
            self.unfrozen = self.find_unfrozen()?;
        }
        let actions = self.actions();
        if actions.is_empty() {
            return self.wait(until);
        }
        match actions[self.random.index(actions.len())] {
            Action::Forward(connection) => self.forward(connection),
            Action::Deliver(connection) => {
                self.pass_latency()?;
                self.deliver(connection)
            }
            Action::Unfreeze(connection) => self.unfreeze(connection),
        }
    }

    /// Whether the process has ended.
    pub fn has_ended(&self, id: ProcessId) -> bool {
        self.processes.get(&id).is_none_or(|process| process.idle == Idle::Ended)
    }

    /// The processes that a fault has killed since the last call.
    pub fn killed(&mut self) -> BTreeSet<ProcessId> {
        std::mem::take(&mut self.killed)
    }

    /// Kills a process: its tasks and connections are dropped.
    ///
    /// # Errors
    /// If Postgres or Redis fails.
    pub fn kill(&mut self, id: ProcessId) -> Result<()> {
        if self.has_ended(id) {
            return Ok(());
        }
        let process = self.processes.get_mut(&id).context("a process")?;
        process.host.kill();
        self.trace.record("kill", &process.name, &[]);
        self.killed.insert(id);
        self.run(id)
    }

    /// Gives a process no turn until this virtual time, as a machine that swaps or is suspended.
    pub fn pause(&mut self, id: ProcessId, until: u64) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.paused_until = until;
            self.trace.record("pause", &process.name, &[]);
        }
    }

    /// Breaks one of the next requests of a process to Postgres.
    pub fn break_statement(&mut self, id: ProcessId, fault: StatementFault) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.fault = Some(fault);
        }
    }

    /// Loses the response to the next batch of several claims or outcomes that a process commits: its connection breaks
    /// instead.
    pub fn lose_batch(&mut self, id: ProcessId) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.loses_batch = true;
        }
    }

    /// Loses the next responses of the service at `address`: their connections break instead.
    pub fn lose_responses(&mut self, address: SocketAddr, count: u64) {
        self.losses.insert(address, count);
    }

    /// Cancels the faults of statements and responses that have not happened. No other follows.
    pub fn end_faults(&mut self) {
        self.faults_ended = true;
        self.losses.clear();
        for process in self.processes.values_mut() {
            (process.fault, process.loses_batch) = (None, false);
        }
    }

    /// Begins or ends an outage of the service at `address`.
    ///
    /// # Errors
    /// If Postgres fails.
    pub fn set_outage(&mut self, address: SocketAddr, outage: Option<Outage>) -> Result<()> {
        self.trace.record("outage", &format!("{address} {outage:?}"), &[]);
        match outage {
            Some(outage) => self.outages.insert(address, outage),
            None => self.outages.remove(&address),
        };
        if outage == Some(Outage::Refused) {
            self.close_connections_to(address)?;
        }
        Ok(())
    }

    /// Kills every process and returns what has happened, and the processes of Postgres.
    ///
    /// # Errors
    /// If Postgres or Redis fails.
    pub fn end(mut self) -> Result<(Trace, Backends)> {
        let all: Vec<ProcessId> = self.processes.keys().copied().collect();
        for id in all {
            self.kill(id)?;
        }
        for process in std::mem::take(&mut self.processes).into_values() {
            process.host.join();
        }
        Ok((self.trace, self.backends))
    }

    /// A process runs until it is idle; then the simulator reads what it has sent.
    fn run(&mut self, id: ProcessId) -> Result<()> {
        let process = self.processes.get_mut(&id).context("a process")?;
        process.ready = false;
        process.idle = process.host.run();
        self.trace.record("run", &process.name, &[]);
        for opened in process.host.opened() {
            self.open(id, opened)?;
        }
        self.receive_from(id);
        if self.faults_ended {
            self.respond_to_pings();
        }
        self.remove_closed()
    }

    /// Moves the time to the next timer, which may fire late.
    fn wait(&mut self, until: u64) -> Result<()> {
        let timers = self.processes.values().filter_map(Process::timer);
        let blocked = self.connections.values().filter_map(Connection::blocked_until);
        let next = timers.chain(blocked).min().unwrap_or(until);
        let late = if self.drift_us == 0 { 0 } else { self.random.below(self.drift_us) };
        self.advance(next.saturating_add(late).min(until))?;
        // A process that wakes late finds what has arrived meanwhile.
        if late > 0 { self.deliver_all() } else { Ok(()) }
    }

    /// Moves the time. Redis gets the time at which a blocked command gives up, because it would otherwise notice that
    /// at a time of its own.
    fn advance(&mut self, to: u64) -> Result<()> {
        while let Some(at) = self.connections.values().filter_map(Connection::blocked_until).min()
            && at <= to
        {
            clock::advance_to(at);
            self.poll_redis()?;
        }
        clock::advance_to(to);
        Ok(())
    }

    fn mark_ready(&mut self, id: ProcessId) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.ready = process.idle != Idle::Ended;
        }
    }

    /// A message takes some time.
    fn pass_latency(&mut self) -> Result<()> {
        let latency = 1 + self.random.below(MAX_LATENCY_US);
        self.advance(clock::now_us() + latency)
    }
}
