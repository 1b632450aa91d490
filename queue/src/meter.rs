//! The metrics of a consumer, labelled with the queue's name.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::Queue;

/// The metrics of one queue in one process.
#[derive(Clone)]
pub(crate) struct Meter {
    /// Entries read for the first time.
    pub(crate) fetched: Counter,
    /// Entries reclaimed from consumers that did not renew them.
    pub(crate) reclaimed: Counter,
    /// Entries delivered for the fifth time or more: their rows may be crashing processes.
    pub(crate) redelivery_limit_exceeded: Counter,
    /// Invalid entries, moved to the dead stream.
    pub(crate) dead: Counter,
    /// Failures of the reading connection.
    pub(crate) reconnects: Counter,
    /// Entries that are being handled by this process, or are about to be.
    pub(crate) in_flight: Gauge,
    /// Seconds from push to read, by Redis' clock.
    pub(crate) wait_seconds: Histogram,
}

impl Meter {
    /// Uses the recorder that is installed now.
    pub(crate) fn new(queue: Queue) -> Self {
        let name = queue.name();
        Self {
            fetched: counter!("queue_fetched_total", "queue" => name),
            reclaimed: counter!("queue_reclaimed_total", "queue" => name),
            redelivery_limit_exceeded: counter!("queue_redelivery_limit_exceeded_total", "queue" => name),
            dead: counter!("queue_dead_total", "queue" => name),
            reconnects: counter!("queue_reconnects_total", "queue" => name),
            in_flight: gauge!("queue_in_flight", "queue" => name),
            wait_seconds: histogram!("queue_wait_seconds", "queue" => name),
        }
    }
}
