//! The clock that is handed in. Rules take an instant; only edges hold a clock; leases go by the database's own.

use std::sync::Arc;

use crate::time::Timestamp;

/// Tells the time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's own clock.
    #[expect(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
    pub fn system() -> Self {
        Self(Arc::new(|| Timestamp::new(jiff::Timestamp::now())))
    }

    /// A clock that stands still, for tests of rules.
    pub fn fixed(at: Timestamp) -> Self {
        Self(Arc::new(move || at))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}
