//! The state that all clients share.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
};

use anyhow::Result;

use crate::chaos::{access::Access, instances::Instances, journal::Journal, shop::Shop, time::Clock};

#[derive(Debug)]
pub(in crate::chaos) struct LoadState {
    pub(in crate::chaos) apis: Instances,
    pub(in crate::chaos) gateways: Instances,
    pub(super) shops: Arc<[Shop]>,
    pub(in crate::chaos) journal: Journal,
    pub(super) clock: Clock,
    ended: AtomicBool,
    /// Clients do not time out early.
    pub(in crate::chaos) full_timeouts: AtomicBool,
    /// The number of clients that have created their customers and cards.
    pub(super) warmed_up_clients: AtomicUsize,
    amounts: AtomicI64,
}

impl LoadState {
    /// `log` is the file for all requests.
    pub(in crate::chaos) fn new(access: &Access<'_>, log: &Path) -> Result<Self> {
        Ok(Self {
            apis: Instances::new(access.apis.clone()),
            gateways: Instances::new(access.gateways.clone()),
            shops: Arc::clone(access.shops),
            journal: Journal::create(log)?,
            clock: access.clock,
            ended: AtomicBool::new(false),
            full_timeouts: AtomicBool::new(false),
            warmed_up_clients: AtomicUsize::new(0),
            amounts: AtomicI64::new(1_000_000),
        })
    }

    /// An amount that no other payment of this run has, even in part: it identifies the lines of a ledger.
    pub(super) fn amount(&self) -> i64 {
        self.amounts.fetch_add(2, Ordering::Relaxed)
    }

    /// Ends the load: each client ends after its current request.
    pub(in crate::chaos) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}
