//! The names a queue has in Redis.

/// The group all workers of all processes read as: each entry goes to one of them.
pub(crate) const GROUP: &str = "workers";

/// Name of a queue: one stream, one group, one dead stream.
///
/// Queues are few and known when the program is written, hence `&'static str`: the name is also the label `queue` of
/// metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue(&'static str);

impl Queue {
    /// Names a queue. Lower case letters and `_`, since the name becomes part of a Redis key and of a metric's label.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The name as it was given.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Key of the stream. The braces keep a queue's two keys in one slot of a Redis Cluster, where they share
    /// transactions.
    pub fn stream(self) -> String {
        format!("queue:{{{}}}", self.0)
    }

    /// Key of the stream that keeps entries nobody can read, for a person to look at.
    pub fn dead_stream(self) -> String {
        format!("queue:{{{}}}:dead", self.0)
    }
}
