//! The entries this process holds. What is in the set is renewed; what has left it is not.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::Gauge;
use tokio::sync::OwnedSemaphorePermit;

/// The ids of the entries held, shared by the tasks of one consumer.
#[derive(Clone)]
pub(crate) struct InFlight {
    ids: Arc<Mutex<HashSet<String>>>,
    gauge: Gauge,
}

impl InFlight {
    pub(crate) fn new(gauge: Gauge) -> Self {
        Self { ids: Arc::default(), gauge }
    }

    /// Takes an entry in. It is held, together with its permit, until the last clone of the answer is dropped: whether
    /// the handler returned, panicked or never began, nothing is left behind.
    pub(crate) fn hold(&self, id: String, permit: OwnedSemaphorePermit) -> Arc<Held> {
        self.lock().insert(id.clone());
        self.gauge.increment(1.0);
        Arc::new(Held { id, in_flight: self.clone(), _permit: permit })
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
        // Nothing under this lock can leave the set half changed.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One entry in this process' hands.
pub(crate) struct Held {
    pub(crate) id: String,
    in_flight: InFlight,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.in_flight.lock().remove(&self.id);
        self.in_flight.gauge.decrement(1.0);
    }
}
