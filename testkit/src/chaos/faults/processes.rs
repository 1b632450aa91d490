//! Kills, stops and restarts processes.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::{
    Process, ProcessKind,
    chaos::{
        fault::Fault::{KillApi, KillGateway, KillScheduler, StopApi, StopGateway, StopScheduler},
        schedule::{PROCESS_KINDS, Step, WORKER_KIND},
        system::System,
        system_config::Size,
    },
    process::Programs,
};

pub(super) type ProcessId = (ProcessKind, usize);

/// The process that a step affects.
pub(super) fn target(size: Size, step: &Step) -> ProcessId {
    let Size { apis, workers, schedulers, gateways } = size;
    let (kind, index) = if step.fault.sets_clock() {
        let kind = match step.target % PROCESS_KINDS {
            0 => ProcessKind::Api,
            WORKER_KIND => ProcessKind::Worker,
            2 => ProcessKind::Scheduler,
            _ => ProcessKind::Gateway,
        };
        (kind, step.target / PROCESS_KINDS)
    } else if [KillApi, StopApi].contains(&step.fault) {
        (ProcessKind::Api, step.target)
    } else if [KillScheduler, StopScheduler].contains(&step.fault) {
        (ProcessKind::Scheduler, step.target)
    } else if [KillGateway, StopGateway].contains(&step.fault) {
        (ProcessKind::Gateway, step.target)
    } else {
        (ProcessKind::Worker, step.target)
    };
    let count = match kind {
        ProcessKind::Api => apis,
        ProcessKind::Worker => workers,
        ProcessKind::Scheduler => schedulers,
        ProcessKind::Gateway => gateways,
        ProcessKind::Portal => 1,
    };
    (kind, index % count)
}

pub(super) fn process(system: &mut System, (kind, index): ProcessId) -> &mut Process {
    system.cluster.process(kind, index)
}

pub(super) struct Processes {
    killed: BTreeSet<ProcessId>,
    /// The release as which killed processes restart, if not their own.
    release: Option<Programs>,
}

impl Processes {
    pub(super) fn new(release: Option<Programs>) -> Self {
        Self { killed: BTreeSet::new(), release }
    }

    pub(super) fn is_killed(&self, id: ProcessId) -> bool {
        self.killed.contains(&id)
    }

    pub(super) fn kill(&mut self, system: &mut System, id: ProcessId) -> Result<()> {
        self.killed.insert(id);
        process(system, id).kill9()
    }

    pub(super) fn restart(&mut self, system: &mut System, id: ProcessId) -> Result<()> {
        self.killed.remove(&id);
        let process = process(system, id);
        if let Some(release) = &self.release {
            process.set_release(release)?;
        }
        process.relaunch()
    }

    /// Restarts processes that have exited by themselves and returns their names.
    pub(super) fn restart_exited(&self, system: &mut System) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for process in system.cluster.processes() {
            if !self.is_killed((process.kind(), process.index())) && process.exit_status()?.is_some() {
                names.push(process.name());
                process.relaunch()?;
            }
        }
        Ok(names)
    }
}
