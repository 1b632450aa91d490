//! The entries that this process is handling. Only entries in this set are renewed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::Gauge;
use tokio::sync::OwnedSemaphorePermit;

/// The ids of the entries in flight, shared by the tasks of one consumer.
#[derive(Clone)]
pub(crate) struct InFlight {
    ids: Arc<Mutex<HashSet<String>>>,
    gauge: Gauge,
}

impl InFlight {
    pub(crate) fn new(gauge: Gauge) -> Self {
        Self { ids: Arc::default(), gauge }
    }

    /// Adds an entry. It stays in the set, with its permit, until the last clone of the returned value is dropped, so
    /// nothing leaks whether the handler returns, panics or never starts.
    pub(crate) fn insert(&self, id: String, permit: OwnedSemaphorePermit) -> Arc<InFlightEntry> {
        self.lock().insert(id.clone());
        self.gauge.increment(1.0);
        Arc::new(InFlightEntry { id, in_flight: self.clone(), _permit: permit })
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.lock().contains(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        // A panic under this lock cannot leave the set inconsistent.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry in flight in this process.
pub(crate) struct InFlightEntry {
    pub(crate) id: String,
    in_flight: InFlight,
    _permit: OwnedSemaphorePermit,
}

impl Drop for InFlightEntry {
    fn drop(&mut self) {
        self.in_flight.lock().remove(&self.id);
        self.in_flight.gauge.decrement(1.0);
    }
}
