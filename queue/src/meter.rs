//! What a consumer counts, under one label: the queue's name.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::Queue;

/// The metrics of one queue in one process.
#[derive(Clone)]
pub(crate) struct Meter {
    /// Entries read for the first time.
    pub(crate) fetched: Counter,
    /// Entries taken over because whoever had them did not renew them.
    pub(crate) reclaimed: Counter,
    /// Entries taken over for the fifth time or more: something about their rows ends processes.
    pub(crate) stubborn: Counter,
    /// Entries nobody can read, moved to the dead stream.
    pub(crate) dead: Counter,
    /// Times the reading connection was lost or refused.
    pub(crate) reconnects: Counter,
    /// Entries held by this process: begun, or about to be.
    pub(crate) in_flight: Gauge,
    /// Seconds from push to read, by Redis' clock at both ends.
    pub(crate) wait_seconds: Histogram,
}

impl Meter {
    /// Binds to the recorder installed at this moment.
    pub(crate) fn new(queue: Queue) -> Self {
        let name = queue.name();
        Self {
            fetched: counter!("queue_fetched_total", "queue" => name),
            reclaimed: counter!("queue_reclaimed_total", "queue" => name),
            stubborn: counter!("queue_stubborn_total", "queue" => name),
            dead: counter!("queue_dead_total", "queue" => name),
            reconnects: counter!("queue_reconnects_total", "queue" => name),
            in_flight: gauge!("queue_in_flight", "queue" => name),
            wait_seconds: histogram!("queue_wait_seconds", "queue" => name),
        }
    }
}
