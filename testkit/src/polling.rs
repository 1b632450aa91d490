//! How often a test asks whether something has happened.

use std::time::Duration;

/// The pause before the next poll of a wait that has lasted this long. What happens soon is noticed soon, and a long wait
/// takes less from the processors on which it waits for others.
#[must_use]
pub fn pause_after(waited: Duration) -> Duration {
    (waited / 4).clamp(Duration::from_millis(20), Duration::from_millis(100))
}
