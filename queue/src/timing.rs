//! The timings of a consumer.

use std::time::Duration;

/// Timings of a consumer, each above zero. The default suits production; tests use shorter ones.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The visibility timeout: an entry not renewed for this long goes to another consumer. Must be several times
    /// `renew_every`, and longer than stalls of Redis that should not cause redelivery.
    pub visibility: Duration,
    /// How often entries in flight are renewed, which lets a handler take any time.
    pub renew_every: Duration,
    /// How long a read waits for entries. It is also the minimum interval between attempts to reclaim entries.
    pub block: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { visibility: Duration::from_secs(15), renew_every: Duration::from_secs(3), block: Duration::from_secs(5) }
    }
}
