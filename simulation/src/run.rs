//! Runs a history: the system, its clients and its faults, until everything is quiet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use foundation::telemetry::MetricsHandle;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use crate::client::{self, Responses};
use crate::history::{Fault, History, SECOND};
use crate::servers::Servers;
use crate::system::{BEGIN_US, POSTGRES, REDIS, Role, System};
use crate::world::Outage;
use crate::{check, clock};

/// The time for all due work to complete after the last fault has ended.
const QUIET_LIMIT: u64 = 3_600 * SECOND;
/// How often the simulator looks for unfinished work.
const QUIET_CHECK: u64 = 20 * SECOND;

/// The result of a history.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// Equal for equal runs.
    pub digest: String,
    /// A sentence for each.
    pub violations: Vec<String>,
    /// How often each status was returned.
    pub statuses: BTreeMap<String, u64>,
    /// The faults that took effect, by name.
    pub faults: BTreeMap<String, u64>,
    /// The events on the virtual network.
    pub events: u64,
    /// Virtual time in microseconds.
    pub virtual_us: u64,
    /// Real time in microseconds.
    pub real_us: u64,
}

/// Something that happens at a virtual time.
#[derive(Clone, Copy, Debug)]
enum Due {
    Fault(Fault),
    Restart(Role),
    EndOutage(bool),
}

/// Runs `history`. `lines` keeps the events as text.
///
/// # Errors
/// If Postgres or Redis fails.
pub fn run(history: &History, servers: &Servers, metrics: MetricsHandle, lines: bool) -> Result<(Report, Vec<String>)> {
    let began = Instant::now();
    servers.reset()?;
    let mut system = System::new(history.seed, servers, metrics)?;
    system.world.trace.lines = lines.then(Vec::new);
    let key = system.create_account()?;
    for role in Role::ALL {
        system.start(role);
    }
    let mut agenda = Agenda::new();
    agenda.run_until(&mut system, clock::now_us() + 2 * SECOND)?;

    let responses: Responses = Arc::new(Mutex::new(vec![None; history.requests.len()]));
    let (requests, kept) = (history.requests.clone(), Arc::clone(&responses));
    let begin = clock::now_us();
    let client = system.world.start("client", 0, move || client::run(requests, key, kept));
    for timed in &history.faults {
        agenda.add(begin + timed.at, Due::Fault(timed.fault));
    }
    while !system.world.has_ended(client) || !agenda.due.is_empty() {
        agenda.step(&mut system, u64::MAX)?;
    }

    agenda.heal(&mut system)?;
    let limit = clock::now_us() + QUIET_LIMIT;
    system.world.drift_us = 5 * SECOND;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut quiet = false;
    while clock::now_us() < limit && !quiet {
        agenda.run_until(&mut system, clock::now_us() + QUIET_CHECK)?;
        quiet = runtime.block_on(check::is_quiet(&servers.database_url()))?;
    }
    let virtual_us = clock::now_us() - BEGIN_US;
    let trace = system.world.end()?;
    let responses = responses.lock().unwrap_or_else(PoisonError::into_inner);
    let mut violations = runtime.block_on(check::check(history, &responses, &servers.database_url()))?;
    if !quiet {
        violations.push("work is unfinished an hour after the last fault".to_owned());
    }
    let report = Report {
        digest: format!("{:016x}", trace.digest()),
        violations,
        statuses: check::statuses(&responses),
        faults: agenda.faults,
        events: trace.events,
        virtual_us,
        real_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
    };
    Ok((report, trace.lines.unwrap_or_default()))
}

/// What happens at which time, besides the processes' own work.
struct Agenda {
    due: BTreeMap<(u64, u64), Due>,
    added: u64,
    faults: BTreeMap<String, u64>,
}

impl Agenda {
    fn new() -> Self {
        Self { due: BTreeMap::new(), added: 0, faults: BTreeMap::new() }
    }

    fn add(&mut self, at: u64, due: Due) {
        self.added += 1;
        self.due.insert((at, self.added), due);
    }

    fn run_until(&mut self, system: &mut System, until: u64) -> Result<()> {
        while clock::now_us() < until {
            self.step(system, until)?;
        }
        Ok(())
    }

    fn step(&mut self, system: &mut System, until: u64) -> Result<()> {
        let next = self.due.first_key_value().map(|((at, _), _)| *at);
        if next.is_some_and(|at| at <= clock::now_us())
            && let Some((_, due)) = self.due.pop_first()
        {
            return self.happen(system, due);
        }
        system.world.step(next.unwrap_or(until).min(until))?;
        for killed in system.world.killed() {
            if let Some(role) = system.role(killed) {
                // A supervisor restarts what has died, unless a fault does so later.
                self.add(clock::now_us() + SECOND, Due::Restart(role));
            }
        }
        Ok(())
    }

    fn happen(&mut self, system: &mut System, due: Due) -> Result<()> {
        match due {
            Due::Restart(role) => system.start(role),
            Due::EndOutage(redis) => system.world.set_outage(address(redis), None)?,
            Due::Fault(fault) => self.begin(system, fault)?,
        }
        Ok(())
    }

    fn begin(&mut self, system: &mut System, fault: Fault) -> Result<()> {
        let name = match fault {
            Fault::Kill { role, restart } => {
                if let Some(process) = system.process(role) {
                    system.world.kill(process)?;
                    system.world.killed();
                    self.add(clock::now_us() + restart, Due::Restart(role));
                }
                "kill"
            }
            Fault::Statement { role, fault } => {
                if let Some(process) = system.process(role) {
                    system.world.break_statement(process, fault);
                }
                "statement"
            }
            Fault::Pause { role, duration } => {
                if let Some(process) = system.process(role) {
                    system.world.pause(process, clock::now_us() + duration);
                }
                "pause"
            }
            Fault::Outage { redis, refused, duration } => {
                let outage = if refused { Outage::Refused } else { Outage::Unresponsive };
                system.world.set_outage(address(redis), Some(outage))?;
                self.add(clock::now_us() + duration, Due::EndOutage(redis));
                "outage"
            }
            Fault::WallClock { role, offset } => {
                system.set_wall_offset(role, offset);
                "wall clock"
            }
        };
        *self.faults.entry(name.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Ends what no fault ends by itself.
    fn heal(&mut self, system: &mut System) -> Result<()> {
        for role in Role::ALL {
            if system.set_wall_offset(role, 0)
                && let Some(process) = system.process(role)
            {
                system.world.kill(process)?;
                system.world.killed();
            }
            system.start(role);
        }
        Ok(())
    }
}

fn address(redis: bool) -> SocketAddr {
    SocketAddr::from(if redis { REDIS } else { POSTGRES })
}
