//! The record of the injected faults.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::Fault;

#[derive(Clone, Debug, Default)]
pub(super) struct FaultLog {
    pub(super) counts: BTreeMap<Fault, u64>,
    /// References that a worker sent after it was stopped for longer than its lease.
    pub(super) late_references: BTreeSet<String>,
    /// Processes that exited without having been killed.
    pub(super) unexpected_exits: Vec<String>,
    /// What was injected, and when.
    pub(super) timeline: Vec<String>,
    /// When each fault was in force, by the run's clock in milliseconds.
    pub(super) windows: Vec<Window>,
    /// The number of processes with a wrong clock that reported their readiness, and those that reported to be ready.
    pub(super) clock_checks: u64,
    pub(super) ready_with_wrong_clock: Vec<String>,
    /// The requests of each account to a provider that rejected everything.
    pub(super) rejected_requests: Vec<RejectedRequests>,
    pub(super) deadlocks: i64,
}

/// When a fault was in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) fault: Fault,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// The requests of one account while its provider rejected everything.
#[derive(Clone, Debug)]
pub(super) struct RejectedRequests {
    pub(super) account: String,
    pub(super) requests: usize,
    pub(super) milliseconds: u128,
}
