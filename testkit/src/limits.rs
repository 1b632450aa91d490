//! For tests of rate limits that processes share in Redis.

use std::time::Duration;

/// Processes with this setting count requests together however busy the machine is: they wait a minute for Redis.
pub const SHARED: (&str, &str) = ("RATE_LIMIT_TIMEOUT_MS", "60000");

/// The tokens that a bucket of one per second may have refilled in this time, plus one for rounding.
pub fn refilled(elapsed: Duration) -> usize {
    usize::try_from(elapsed.as_secs()).expect("seconds fit") + 1
}
