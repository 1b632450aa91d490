//! The names of a queue in Redis.

/// The consumer group of all worker processes: each entry goes to one consumer of the group.
pub(crate) const GROUP: &str = "workers";

/// The name of a queue: one stream, one group, one dead stream.
///
/// It is `&'static str` because the queues are known at compile time, and because the name is also the label `queue` of
/// metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue(&'static str);

impl Queue {
    /// Only lower case letters and `_`, since the name becomes part of Redis keys and a metric label.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The queue's name.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Key of the stream. The braces put a queue's keys into one hash slot of a Redis Cluster, which transactions
    /// require.
    pub fn stream(self) -> String {
        format!("queue:{{{}}}", self.0)
    }

    /// Key of the stream of invalid entries, kept for operators to inspect.
    pub fn dead_stream(self) -> String {
        format!("queue:{{{}}}:dead", self.0)
    }
}
