//! The queues between the processes, each with its own workers and limits, so that slow work of one kind never delays another.

use queue::Queue;

/// Operations: requests to providers that move money or save cards. Carries operation ids.
pub const MONEY: Queue = Queue::new("money");
/// Operations that nobody waits for: collections of invoices. Carries operation ids.
pub const COLLECTIONS: Queue = Queue::new("collections");
/// Questions to providers how a charge stands: expired, settled. Carries payment ids.
pub const INQUIRIES: Queue = Queue::new("inquiries");

/// Statements of providers to be compared with our books. Carries provider account ids.
pub const RECONCILIATIONS: Queue = Queue::new("reconciliations");

/// Webhook endpoints that have something to be told. Carries endpoint ids.
pub const WEBHOOKS: Queue = Queue::new("webhooks");

/// Test clocks that are being advanced. Carries account ids.
pub const CLOCKS: Queue = Queue::new("clocks");

/// Every queue, for metrics.
pub const ALL: [Queue; 6] = [MONEY, COLLECTIONS, INQUIRIES, RECONCILIATIONS, WEBHOOKS, CLOCKS];

/// Counts from nought what may happen to wake-ups, in a process that posts them.
pub fn count_posts_from_nought() {
    metrics::counter!("queue_posts_failed_total").increment(0);
    for queue in ALL {
        metrics::counter!("queue_posts_dropped_total", "queue" => queue.name()).increment(0);
    }
}
