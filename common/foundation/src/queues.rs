//! The queues between the processes. Each has its own workers and limits, so that slow work of one kind does not delay
//! another.

use queue::Queue;

/// Operations: requests to providers that move money or save cards. Carries operation ids. The name in Redis is part of the
/// protocol between processes: during an upgrade, processes of the former version read and write this stream.
pub const PAYMENTS: Queue = Queue::new("money");
/// Background operations: collections of invoices. Carries operation ids.
pub const COLLECTIONS: Queue = Queue::new("collections");
/// Inquiries to providers whether a charge has settled or expired. Carries payment ids.
pub const INQUIRIES: Queue = Queue::new("inquiries");

/// Provider accounts whose statements are to be reconciled. Carries provider account ids.
pub const RECONCILIATIONS: Queue = Queue::new("reconciliations");

/// Webhook endpoints with due deliveries. Carries endpoint ids.
pub const WEBHOOKS: Queue = Queue::new("webhooks");

/// Test clocks that are being advanced. Carries account ids.
pub const CLOCKS: Queue = Queue::new("clocks");

/// Every queue, for metrics.
pub const ALL: [Queue; 6] = [PAYMENTS, COLLECTIONS, INQUIRIES, RECONCILIATIONS, WEBHOOKS, CLOCKS];

/// Registers the counters of failed and dropped wake-ups and replies at zero, in a process that pushes them.
pub fn register_posts_metrics() {
    metrics::counter!("queue_posts_failed_total").increment(0);
    metrics::counter!("queue_replies_dropped_total").increment(0);
    for queue in ALL {
        metrics::counter!("queue_posts_dropped_total", "queue" => queue.name()).increment(0);
    }
}
